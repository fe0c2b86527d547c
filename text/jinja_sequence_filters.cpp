#include <algorithm>
#include <charconv>
#include <iterator>

#include "text/jinja_filters.h"
#include "text/jinja_format.h"
#include "text/jinja_operators.h"
#include "text/jinja_text_parts.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

AttributePath::AttributePath(const Value* attribute, Budget& budget) {
  if (attribute == nullptr || attribute->is_none()) {
    return;
  }
  const Text* path = attribute->as_text();
  if (path == nullptr) {
    parts_.push_back(*attribute);
    return;
  }
  for (const std::string_view part : split_at(path->bytes, ".", -1, budget)) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(digits && error == std::errc() && end == part.data() + part.size() ? Value(number)
                                                                                        : Value::text(std::string(part)));
  }
}

Value AttributePath::get(const Value& item, Budget& budget) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(value, part, budget);
  }
  return value;
}

namespace {

Value generator(std::vector<Value> items, Budget& budget) {
  return make_sequence(SequenceKind::kGenerator, std::move(items), budget);
}

Value fold_case(const Value& value, bool case_sensitive, Budget& budget) {
  return case_sensitive || !value.is_text() ? value : make_text(to_lower(value.as_text()->bytes), budget);
}

Value list_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("list", arguments, {}, 0);
  return make_list(iterate(subject, budget), budget);
}

Value items_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("items", arguments, {}, 0);
  std::vector<Value> items;
  if (const Dict* dict = subject.as_dict()) {
    for (const auto& [key, value] : dict->entries) {
      items.push_back(make_sequence(SequenceKind::kTuple, {key, value}, budget));
    }
  } else if (!subject.is_undefined()) {
    fail("Can only get item pairs from a mapping.");
  }
  return generator(std::move(items), budget);
}

Value join_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("join", arguments, {"d", "attribute"}, 0);
  const std::string separator = bound.has(0) ? to_text(bound[0], budget) : "";
  const AttributePath path(bound.has(1) ? &bound[1] : nullptr, budget);
  std::string out;
  bool first = true;
  for (const Value& item : iterate(subject, budget)) {
    const std::string text = to_text(path.get(item, budget), budget);
    budget.charge_bytes(text.size() + separator.size());
    out += first ? "" : separator;
    first = false;
    out += text;
  }
  return Value::text(std::move(out));
}

Value first_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("first", arguments, {}, 0);
  const Sequence* sequence = subject.as_sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::kGenerator && sequence->read < sequence->items.size()) {
    return sequence->items[sequence->read++];
  }
  const std::vector<Value> items = iterate(subject, budget);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

bool is_generator(const Value& value) {
  return value.as_sequence() != nullptr && value.as_sequence()->kind == SequenceKind::kGenerator;
}

Value last_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("last", arguments, {}, 0);
  if (is_generator(subject)) {
    fail("'generator' object is not reversible");
  }
  const std::vector<Value> items = iterate(subject, budget);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("reverse", arguments, {}, 0);
  std::vector<Value> items = iterate(subject, budget);
  std::reverse(items.begin(), items.end());
  if (!subject.is_text()) {
    return is_generator(subject) ? make_list(std::move(items), budget) : generator(std::move(items), budget);
  }
  std::string out;
  for (const Value& item : items) {
    out += item.as_text()->bytes;
  }
  return make_text(std::move(out), budget, subject.as_text()->safe);
}

Value map_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  std::vector<Value> results;
  if (arguments.positional.empty() && arguments.find_named("attribute") != nullptr) {
    const Bound bound("map", arguments, {"attribute", "default"}, 1);
    const AttributePath path(&bound[0], budget);
    for (const Value& item : iterate(subject, budget)) {
      const Value value = path.get(item, budget);
      results.push_back(value.is_undefined() && bound.has(1) && !bound[1].is_none() ? bound[1] : value);
    }
    return generator(std::move(results), budget);
  }
  if (arguments.positional.empty() || !arguments.positional[0].is_text()) {
    fail("map requires a filter argument");
  }
  const FilterEntry* filter = find_filter(arguments.positional[0].as_text()->bytes);
  if (filter == nullptr) {
    fail_unsupported("the filter '{}'", arguments.positional[0].as_text()->bytes);
  }
  const Budget::Level level(budget);
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : iterate(subject, budget)) {
    results.push_back(filter->apply(item, rest, budget));
  }
  return generator(std::move(results), budget);
}

/// select, reject, selectattr and rejectattr: the items for which a test (of an attribute) holds, or does not.
template <bool Wanted, bool OfAttribute>
Value select_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  constexpr std::size_t kTestIndex = OfAttribute ? 1 : 0;
  const std::vector<Value>& given = arguments.positional;
  if (!subject.truthy()) {
    return generator({}, budget);
  }
  if (given.size() < kTestIndex) {
    fail("Missing parameter for attribute name");
  }
  const AttributePath path(OfAttribute ? &given[0] : nullptr, budget);
  const TestEntry* test = nullptr;
  Arguments rest{{}, arguments.named};
  if (given.size() > kTestIndex) {
    const Value& name = given[kTestIndex];
    test = name.is_text() ? find_test(name.as_text()->bytes) : nullptr;
    if (test == nullptr) {
      fail_unsupported("the test {}", repr(name, budget));
    }
    rest.positional.assign(given.begin() + kTestIndex + 1, given.end());
  }
  std::vector<Value> results;
  for (const Value& item : iterate(subject, budget)) {
    const Value tested = path.get(item, budget);
    if ((test == nullptr ? tested.truthy() : test->apply(tested, rest, budget)) == Wanted) {
      results.push_back(item);
    }
  }
  return generator(std::move(results), budget);
}

/// The keys that sort compares: one for each attribute of "a,b", or the item.
std::vector<AttributePath> sort_paths(const Value* attribute, Budget& budget) {
  std::vector<AttributePath> paths;
  if (attribute == nullptr || !attribute->is_text()) {
    paths.emplace_back(attribute, budget);
    return paths;
  }
  for (const std::string_view part : split_at(attribute->as_text()->bytes, ",", -1, budget)) {
    const Value path = Value::text(std::string(part));
    paths.emplace_back(&path, budget);
  }
  return paths;
}

/// Items with their sort keys, in ascending or descending order of these; stable.
std::vector<Value> sorted_by_key(std::vector<std::pair<Value, Value>> keyed, bool reverse, Budget& budget) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, budget) : less(a.first, b.first, budget);
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& entry : keyed) {
    items.push_back(std::move(entry.second));
  }
  return items;
}

Value sort_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const std::vector<AttributePath> paths = sort_paths(bound.has(2) ? &bound[2] : nullptr, budget);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : iterate(subject, budget)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      keys.push_back(fold_case(path.get(item, budget), bound.truthy(1), budget));
    }
    keyed.emplace_back(make_list(std::move(keys), budget), std::move(item));
  }
  return make_list(sorted_by_key(std::move(keyed), bound.truthy(0), budget), budget);
}

Value dictsort_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const std::string* by = bound.text(1);
  if (by != nullptr && *by != "key" && *by != "value") {
    fail("You can only sort by either \"key\" or \"value\"");
  }
  const Dict* dict = subject.as_dict();
  if (dict == nullptr) {
    require_defined(subject);
    fail("'{}' object has no attribute 'items'", type_name(subject));
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : dict->entries) {
    const Value& sorted_by = by != nullptr && *by == "value" ? value : key;
    keyed.emplace_back(fold_case(sorted_by, bound.truthy(0), budget), make_sequence(SequenceKind::kTuple, {key, value}, budget));
  }
  return make_list(sorted_by_key(std::move(keyed), bound.truthy(2), budget), budget);
}

Value unique_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"}, 0);
  const AttributePath path(bound.has(1) ? &bound[1] : nullptr, budget);
  std::vector<Value> seen;
  std::vector<Value> results;
  for (const Value& item : iterate(subject, budget)) {
    const Value key = fold_case(path.get(item, budget), bound.truthy(0), budget);
    if (key.as_dict() != nullptr || (key.as_sequence() != nullptr && key.as_sequence()->kind == SequenceKind::kList)) {
      fail("unhashable type: '{}'", type_name(key));
    }
    if (std::none_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(key, other, budget); })) {
      seen.push_back(key);
      results.push_back(item);
    }
  }
  return generator(std::move(results), budget);
}

template <bool Largest>
Value extreme_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound(Largest ? "max" : "min", arguments, {"case_sensitive", "attribute"}, 0);
  const AttributePath path(bound.has(1) ? &bound[1] : nullptr, budget);
  const std::vector<Value> items = iterate(subject, budget);
  if (items.empty()) {
    return Value::undefined("No aggregated item, sequence was empty.");
  }
  std::size_t best = 0;
  Value best_key;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const Value key = fold_case(path.get(items[index], budget), bound.truthy(0), budget);
    if (index == 0 || compare(Largest ? Comparison::kGreater : Comparison::kLess, key, best_key, budget)) {
      best = index;
      best_key = key;
    }
  }
  return items[best];
}

Value sum_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("sum", arguments, {"attribute", "start"}, 0);
  const AttributePath path(bound.has(0) ? &bound[0] : nullptr, budget);
  Value total = bound.has(1) ? bound[1] : Value(0);
  if (total.is_text()) {
    fail("sum() can't sum strings [use ''.join(seq) instead]");
  }
  for (const Value& item : iterate(subject, budget)) {
    total = apply(BinaryOperator::kAdd, total, path.get(item, budget), budget);
  }
  return total;
}

constexpr FilterEntry kSequenceFilters[] = {{"dictsort", dictsort_filter},
                                            {"first", first_filter},
                                            {"items", items_filter},
                                            {"join", join_filter},
                                            {"last", last_filter},
                                            {"list", list_filter},
                                            {"map", map_filter},
                                            {"max", extreme_filter<true>},
                                            {"min", extreme_filter<false>},
                                            {"reject", select_filter<false, false>},
                                            {"rejectattr", select_filter<false, true>},
                                            {"reverse", reverse_filter},
                                            {"select", select_filter<true, false>},
                                            {"selectattr", select_filter<true, true>},
                                            {"sort", sort_filter},
                                            {"sum", sum_filter},
                                            {"unique", unique_filter}};

}  // namespace

const FilterEntry* find_sequence_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kSequenceFilters), std::end(kSequenceFilters),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(kSequenceFilters) ? nullptr : found;
}

}  // namespace lynx::text::jinja
