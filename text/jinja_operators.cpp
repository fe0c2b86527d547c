#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja_format.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd: return "+";
    case BinaryOperator::kSubtract: return "-";
    case BinaryOperator::kMultiply: return "*";
    case BinaryOperator::kDivide: return "/";
    case BinaryOperator::kFloorDivide: return "//";
    case BinaryOperator::kModulo: return "%";
    case BinaryOperator::kPower: break;
  }
  return "**";
}

[[noreturn]] void fail_operands(BinaryOperator op, const Value& left, const Value& right) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(left), type_name(right));
}

[[noreturn]] void fail_overflow() {
  fail("an integer result does not fit 64 bits");
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  std::int64_t quotient = 0;
  // The one quotient that overflows is INT64_MIN / -1.
  if (right == -1) {
    if (__builtin_sub_overflow(std::int64_t{0}, left, &quotient)) {
      fail_overflow();
    }
    return quotient;
  }
  quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  bool base_overflowed = false;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && (base_overflowed || __builtin_mul_overflow(result, base, &result))) {
      fail_overflow();
    }
    base_overflowed = base_overflowed || __builtin_mul_overflow(base, base, &base);
  }
  return Value(result);
}

Value apply_integers(BinaryOperator op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(left, right, &result)) fail_overflow();
      return Value(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(left, right, &result)) fail_overflow();
      return Value(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(left, right, &result)) fail_overflow();
      return Value(result);
    case BinaryOperator::kFloorDivide: return Value(floor_divide(left, right));
    case BinaryOperator::kModulo: return Value(right == -1 ? std::int64_t{0} : left - floor_divide(left, right) * right);
    case BinaryOperator::kPower: return integer_power(left, right);
    case BinaryOperator::kDivide: break;
  }
  return Value(static_cast<double>(left) / static_cast<double>(right));
}

double float_modulo(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder != 0.0) {
    return (remainder < 0) != (right < 0) ? remainder + right : remainder;
  }
  return std::copysign(0.0, right);
}

double float_floor_divide(double left, double right) {
  const double quotient = (left - float_modulo(left, right)) / right;
  const double floored = std::floor(quotient);
  if (quotient == 0.0) {
    return std::copysign(0.0, left / right);
  }
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Value float_power(double base, double exponent) {
  if (base == 0.0 && exponent < 0) {
    fail("0.0 cannot be raised to a negative power");
  }
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    fail_unsupported("a complex number");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    fail("Numerical result out of range");
  }
  return Value(result);
}

Value apply_floats(BinaryOperator op, double left, double right) {
  switch (op) {
    case BinaryOperator::kAdd: return Value(left + right);
    case BinaryOperator::kSubtract: return Value(left - right);
    case BinaryOperator::kMultiply: return Value(left * right);
    case BinaryOperator::kFloorDivide: return Value(float_floor_divide(left, right));
    case BinaryOperator::kModulo: return Value(float_modulo(left, right));
    case BinaryOperator::kPower: return float_power(left, right);
    case BinaryOperator::kDivide: break;
  }
  return Value(left / right);
}

Value apply_numbers(BinaryOperator op, const Value& left, const Value& right) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide || op == BinaryOperator::kModulo;
  if (divides && right.real() == 0.0) {
    fail("{}", op == BinaryOperator::kDivide        ? "division by zero"
               : op == BinaryOperator::kFloorDivide ? "integer division or modulo by zero"
                                                    : "integer modulo by zero");
  }
  const bool float_result = op == BinaryOperator::kPower && right.is_integer() && right.integer() < 0;
  if (left.is_integer() && right.is_integer() && !float_result) {
    return apply_integers(op, left.integer(), right.integer());
  }
  return apply_floats(op, left.real(), right.real());
}

Value add_texts(const Text& left, const Text& right, Budget& budget) {
  budget.charge_bytes(left.bytes.size() + right.bytes.size());
  if (left.safe == right.safe) {
    return Value::text(left.bytes + right.bytes, left.safe);
  }
  budget.charge_bytes(5 * (left.safe ? right : left).bytes.size());
  return left.safe ? Value::text(left.bytes + escape_html(right.bytes), true)
                   : Value::text(escape_html(left.bytes) + right.bytes, true);
}

/// Lists with lists, tuples with tuples; nothing for other pairs.
std::optional<Value> add_sequences(const Value& left, const Value& right, Budget& budget) {
  const Sequence* a = left.as_sequence();
  const Sequence* b = right.as_sequence();
  if (a == nullptr || b == nullptr || a->kind != b->kind || a->kind > SequenceKind::kTuple) {
    return std::nullopt;
  }
  budget.charge_items(a->items.size() + b->items.size());
  std::vector<Value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return make_sequence(a->kind, std::move(items), budget);
}

std::optional<Value> repeat(const Value& value, const Value& times, Budget& budget) {
  if (!times.is_integer()) {
    return std::nullopt;
  }
  // Checked against the budget before any of it is made.
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(times.integer(), 0, std::int64_t{1} << 32));
  if (const Text* text = value.as_text()) {
    budget.charge_bytes(std::min(text->bytes.size(), std::size_t{1} << 30) * count);
    std::string bytes;
    bytes.reserve(text->bytes.size() * count);
    for (std::size_t round = 0; round < count && !text->bytes.empty(); ++round) {
      bytes += text->bytes;
    }
    return Value::text(std::move(bytes), text->safe);
  }
  const Sequence* sequence = value.as_sequence();
  if (sequence == nullptr || sequence->kind > SequenceKind::kTuple) {
    return std::nullopt;
  }
  budget.charge_items(sequence->items.size() * count);
  std::vector<Value> items;
  for (std::size_t round = 0; round < count && !sequence->items.empty(); ++round) {
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  }
  return make_sequence(sequence->kind, std::move(items), budget);
}

}  // namespace

Value apply(BinaryOperator op, const Value& left, const Value& right, Budget& budget) {
  if (left.is_number() && right.is_number()) {
    return apply_numbers(op, left, right);
  }
  if (op == BinaryOperator::kModulo && left.is_text()) {
    if (left.as_text()->safe) {
      fail_unsupported("% on text marked as safe");
    }
    return make_text(format_percent(left.as_text()->bytes, right, budget), budget);
  }
  require_defined(left);
  require_defined(right);
  std::optional<Value> result;
  if (op == BinaryOperator::kAdd && left.is_text() && right.is_text()) {
    result = add_texts(*left.as_text(), *right.as_text(), budget);
  } else if (op == BinaryOperator::kAdd) {
    result = add_sequences(left, right, budget);
  } else if (op == BinaryOperator::kMultiply) {
    result = left.is_integer() ? repeat(right, left, budget) : repeat(left, right, budget);
  }
  if (!result.has_value()) {
    const Sequence* sequence = left.as_sequence();
    if (op == BinaryOperator::kAdd && (left.is_text() || (sequence != nullptr && sequence->kind <= SequenceKind::kTuple))) {
      const std::string type = left.is_text() ? "str" : type_name(left);
      fail("can only concatenate {} (not \"{}\") to {}", type, type_name(right), type);
    }
    fail_operands(op, left, right);
  }
  return *std::move(result);
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_integer()) {
    return apply_integers(BinaryOperator::kSubtract, 0, value.integer());
  }
  if (const double* number = value.as<double>()) {
    return Value(-*number);
  }
  fail("bad operand type for unary -: '{}'", type_name(value));
}

Value positive(const Value& value) {
  require_defined(value);
  if (!value.is_number()) {
    fail("bad operand type for unary +: '{}'", type_name(value));
  }
  return value.is_integer() ? Value(value.integer()) : value;
}

namespace {

std::string_view symbol(Comparison op) {
  switch (op) {
    case Comparison::kLess: return "<";
    case Comparison::kLessEqual: return "<=";
    case Comparison::kGreater: return ">";
    default: return ">=";
  }
}

template <class T>
bool ordered(Comparison op, const T& left, const T& right) {
  switch (op) {
    case Comparison::kLess: return left < right;
    case Comparison::kLessEqual: return left <= right;
    case Comparison::kGreater: return left > right;
    default: return left >= right;
  }
}

/// left op right for one of the four ordering operators.
bool compare_order(Comparison op, const Value& left, const Value& right, Budget& budget) {
  budget.charge_steps(1);
  require_defined(left);
  require_defined(right);
  if (left.is_number() && right.is_number()) {
    const bool integers = left.is_integer() && right.is_integer();
    return integers ? ordered(op, left.integer(), right.integer()) : ordered(op, left.real(), right.real());
  }
  if (const Text* a = left.as_text(), *b = right.as_text(); a != nullptr && b != nullptr) {
    // Bytes of UTF-8 sort as their code points do.
    budget.charge_reading(std::min(a->bytes.size(), b->bytes.size()));
    return ordered(op, a->bytes, b->bytes);
  }
  const Sequence* a = left.as_sequence();
  const Sequence* b = right.as_sequence();
  if (a != nullptr && b != nullptr && a->kind == b->kind && a->kind <= SequenceKind::kTuple) {
    for (std::size_t index = 0; index < std::min(a->items.size(), b->items.size()); ++index) {
      if (!equal(a->items[index], b->items[index], budget)) {
        return compare_order(op, a->items[index], b->items[index], budget);
      }
    }
    return ordered(op, a->items.size(), b->items.size());
  }
  fail("'{}' not supported between instances of '{}' and '{}'", symbol(op), type_name(left), type_name(right));
}

}  // namespace

bool less(const Value& left, const Value& right, Budget& budget) {
  return compare_order(Comparison::kLess, left, right, budget);
}

bool compare(Comparison op, const Value& left, const Value& right, Budget& budget) {
  switch (op) {
    case Comparison::kEqual: return equal(left, right, budget);
    case Comparison::kNotEqual: return !equal(left, right, budget);
    case Comparison::kIn: return contains(right, left, budget);
    case Comparison::kNotIn: return !contains(right, left, budget);
    default: return compare_order(op, left, right, budget);
  }
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const Text* text = container.as_text()) {
    if (!item.is_text()) {
      fail("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    budget.charge_reading(text->bytes.size());
    return find_bytes(text->bytes, item.as_text()->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = container.as_dict()) {
    const Sequence* sequence = item.as_sequence();
    if (item.as_dict() != nullptr || (sequence != nullptr && sequence->kind == SequenceKind::kList)) {
      fail("unhashable type: '{}'", type_name(item));
    }
    return dict->find(item, budget) != nullptr;
  }
  if (container.as_sequence() == nullptr && !container.is_undefined()) {
    fail("argument of type '{}' is not iterable", type_name(container));
  }
  const std::vector<Value> items = iterate(container, budget);
  return std::any_of(items.begin(), items.end(), [&](const Value& candidate) { return equal(candidate, item, budget); });
}

std::int64_t length(const Value& value, Budget& budget) {
  if (const Text* text = value.as_text()) {
    budget.charge_reading(text->bytes.size());
    return static_cast<std::int64_t>(count_code_points(text->bytes));
  }
  if (const Sequence* sequence = value.as_sequence(); sequence != nullptr && sequence->kind != SequenceKind::kGenerator) {
    return static_cast<std::int64_t>(sequence->items.size());
  }
  if (const Dict* dict = value.as_dict()) {
    return static_cast<std::int64_t>(dict->entries.size());
  }
  if (value.is_undefined()) {
    return 0;
  }
  fail("object of type '{}' has no len()", type_name(value));
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) {
    return std::string_view::npos;
  }
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace lynx::text::jinja
