#include <algorithm>
#include <iterator>

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"

namespace lynx::text::jinja {

namespace {

template <bool (*Holds)(const Value&)>
bool plain(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound none("the test", arguments, {}, 0);
  return Holds(subject);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.as<bool>() != nullptr;
}
bool is_true(const Value& value) {
  return is_boolean(value) && *value.as<bool>();
}
bool is_false(const Value& value) {
  return is_boolean(value) && !*value.as<bool>();
}
bool is_integer(const Value& value) {
  return value.as<std::int64_t>() != nullptr;
}
bool is_float(const Value& value) {
  return value.as<double>() != nullptr;
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is_text();
}
bool is_mapping(const Value& value) {
  return value.as_dict() != nullptr;
}
/// jinja2 calls a sequence what has a length and __getitem__: dictionaries too, and the undefined value.
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.as_sequence();
  return value.is_undefined() || value.is_text() || value.as_dict() != nullptr ||
         (sequence != nullptr && sequence->kind <= SequenceKind::kRange);
}
bool is_callable(const Value& value) {
  return value.as_function() != nullptr || value.is_undefined() || value.as_loop() != nullptr;
}

/// value % divisor == 0 with Python's rules for the types.
bool divides(const Value& value, const Value& divisor, std::int64_t remainder, Budget& budget) {
  return equal(apply(BinaryOperator::kModulo, value, divisor, budget), Value(remainder), budget);
}

bool is_even(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("even", arguments, {}, 0);
  return divides(subject, Value(2), 0, budget);
}

bool is_odd(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("odd", arguments, {}, 0);
  return divides(subject, Value(2), 1, budget);
}

bool is_divisible_by(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return divides(subject, bound[0], 0, budget);
}

template <Comparison Op>
bool compares(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("the test", arguments, {"other"}, 1);
  return compare(Op, subject, bound[0], budget);
}

/// Python's `is`, where it does not depend on how the interpreter shares small objects.
bool is_same_as(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  const Value& other = bound[0];
  if (type_name(subject) != type_name(other)) {
    return false;
  }
  if (subject.is_none() || is_boolean(subject) || subject.as_namespace() != nullptr) {
    return equal(subject, other, budget);
  }
  if (const Dict* dict = subject.as_dict()) {
    return dict == other.as_dict();
  }
  if (const Sequence* sequence = subject.as_sequence()) {
    return sequence == other.as_sequence();
  }
  fail_unsupported("the test 'sameas' on values of type {}", type_name(subject));
}

constexpr TestEntry kTests[] = {{"boolean", plain<is_boolean>},
                                {"callable", plain<is_callable>},
                                {"defined", plain<is_defined>},
                                {"divisibleby", is_divisible_by},
                                {"even", is_even},
                                {"false", plain<is_false>},
                                {"float", plain<is_float>},
                                {"in", compares<Comparison::kIn>},
                                {"integer", plain<is_integer>},
                                {"iterable", plain<is_iterable>},
                                {"mapping", plain<is_mapping>},
                                {"none", plain<is_none>},
                                {"number", plain<is_number>},
                                {"odd", is_odd},
                                {"sameas", is_same_as},
                                {"sequence", plain<is_sequence>},
                                {"string", plain<is_string>},
                                {"true", plain<is_true>},
                                {"undefined", plain<is_undefined>},
                                {"==", compares<Comparison::kEqual>},
                                {"eq", compares<Comparison::kEqual>},
                                {"equalto", compares<Comparison::kEqual>},
                                {"!=", compares<Comparison::kNotEqual>},
                                {"ne", compares<Comparison::kNotEqual>},
                                {"<", compares<Comparison::kLess>},
                                {"lt", compares<Comparison::kLess>},
                                {"lessthan", compares<Comparison::kLess>},
                                {"<=", compares<Comparison::kLessEqual>},
                                {"le", compares<Comparison::kLessEqual>},
                                {">", compares<Comparison::kGreater>},
                                {"gt", compares<Comparison::kGreater>},
                                {"greaterthan", compares<Comparison::kGreater>},
                                {">=", compares<Comparison::kGreaterEqual>},
                                {"ge", compares<Comparison::kGreaterEqual>}};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const TestEntry& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace lynx::text::jinja
