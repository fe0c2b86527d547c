#include <algorithm>

#include <fmt/format.h>

#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

/// How jinja2's messages call an object.
std::string object_name(const Value& object) {
  if (object.is_none()) {
    return "None";
  }
  if (object.as_namespace() != nullptr) {
    return "jinja2.utils.Namespace object";
  }
  return type_name(object) + " object";
}

Value missing(const Value& object, const Value& key, Budget& budget) {
  if (const Text* name = key.as_text()) {
    return Value::undefined(fmt::format("{} has no attribute {}", quote_python(object_name(object)), quote_python(name->bytes)));
  }
  return Value::undefined(fmt::format("{} has no element {}", object_name(object), repr(key, budget)));
}

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute {} of '{}' object is unsafe.", quote_python(name), type_name(object)));
}

/// Python's getattr(); nothing where it would raise AttributeError.
std::optional<Value> python_attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) {
    fail_undefined(object);
  }
  if (const Namespace* space = object.as_namespace()) {
    const Value* found = space->find(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__") {
    return unsafe(object, name);
  }
  if (Loop* loop = object.as_loop()) {
    const auto found = loop->attribute(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  switch (member_kind(object, name)) {
    case MemberKind::kNone: return std::nullopt;
    case MemberKind::kMutating: return unsafe(object, name);
    case MemberKind::kUnsupported: fail_unsupported("the attribute '{}' of '{}'", name, type_name(object));
    case MemberKind::kMethod: break;
  }
  Function method{FunctionKind::kMethod, std::string(name), nullptr, std::make_shared<const Value>(object)};
  return Value(std::shared_ptr<const Function>(std::make_shared<Function>(std::move(method))));
}

/// The index of a sequence of `size` items that `key` means, counted from the end when negative; nothing when out of range.
std::optional<std::size_t> item_index(const Value& key, std::int64_t size) {
  const std::int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
  return index < 0 || index >= size ? std::nullopt : std::optional<std::size_t>(static_cast<std::size_t>(index));
}

bool subscriptable(const Sequence& sequence) {
  return sequence.kind <= SequenceKind::kRange;
}

/// object[key]; nothing where Python would raise a TypeError or a LookupError.
std::optional<Value> python_item(const Value& object, const Value& key, Budget& budget) {
  if (const Dict* dict = object.as_dict()) {
    const Value* found = key.as_dict() != nullptr ? nullptr : dict->find(key, budget);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!key.is_integer()) {
    return std::nullopt;
  }
  if (const Text* text = object.as_text()) {
    budget.charge_reading(text->bytes.size());
    const auto index = item_index(key, static_cast<std::int64_t>(count_code_points(text->bytes)));
    if (!index.has_value()) {
      return std::nullopt;
    }
    const std::size_t at = code_point_offset(text->bytes, *index);
    return Value::text(text->bytes.substr(at, code_point_length(text->bytes, at)), text->safe);
  }
  const Sequence* sequence = object.as_sequence();
  if (sequence == nullptr || !subscriptable(*sequence)) {
    return std::nullopt;
  }
  const auto index = item_index(key, static_cast<std::int64_t>(sequence->items.size()));
  return index.has_value() ? std::optional<Value>(sequence->items[*index]) : std::nullopt;
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name, Budget& budget) {
  if (std::optional<Value> found = python_attribute(object, name)) {
    return *std::move(found);
  }
  const Dict* dict = object.as_dict();
  const Value* item = dict == nullptr ? nullptr : dict->find(name, budget);
  return item == nullptr ? missing(object, Value::text(std::string(name)), budget) : *item;
}

Value get_item(const Value& object, const Value& key, Budget& budget) {
  require_defined(object);
  std::optional<Value> found = python_item(object, key, budget);
  if (!found.has_value() && key.is_text()) {
    found = python_attribute(object, key.as_text()->bytes);
  }
  return found.has_value() ? *std::move(found) : missing(object, key, budget);
}

namespace {

/// The bounds of a slice as Python reads them for a sequence of some size.
struct SliceBounds {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;

  std::int64_t count() const {
    if (step > 0) {
      return start < stop ? (stop - start - 1) / step + 1 : 0;
    }
    return stop < start ? (start - stop - 1) / -step + 1 : 0;
  }
};

bool is_slice_part(const std::optional<Value>& part) {
  return !part.has_value() || part->is_none() || part->is_integer();
}

std::optional<std::int64_t> slice_part(const std::optional<Value>& part) {
  return part.has_value() && part->is_integer() ? std::optional<std::int64_t>(part->integer()) : std::nullopt;
}

SliceBounds slice_bounds(const std::optional<Value>& start, const std::optional<Value>& stop, const std::optional<Value>& step,
                         std::int64_t size) {
  const std::int64_t by = slice_part(step).value_or(1);
  if (by == 0) {
    fail("slice step cannot be zero");
  }
  // Steps beyond the size all mean "one item"; the clamp keeps -step and start + step from overflowing.
  const std::int64_t clamped_step = std::clamp<std::int64_t>(by, -size - 1, size + 1);
  const std::int64_t low = by > 0 ? 0 : -1;
  const std::int64_t high = by > 0 ? size : size - 1;
  const auto place = [&](std::int64_t index) {
    return index < 0 ? std::max(index < -size ? low : index + size, low) : std::min(index, high);
  };
  const auto first = slice_part(start);
  const auto last = slice_part(stop);
  return {first.has_value() ? place(*first) : (by > 0 ? low : high), last.has_value() ? place(*last) : (by > 0 ? high : low),
          clamped_step};
}

Value slice_text(const Text& text, const SliceBounds& bounds, Budget& budget) {
  const std::string_view bytes = text.bytes;
  if (bounds.step == 1) {
    const std::size_t from = code_point_offset(bytes, static_cast<std::size_t>(bounds.start));
    const auto wanted = static_cast<std::size_t>(bounds.count());
    const std::string_view rest = bytes.substr(from);
    return make_text(std::string(rest.substr(0, code_point_offset(rest, wanted))), budget, text.safe);
  }
  budget.charge_bytes(sizeof(std::size_t) * bytes.size());
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < bytes.size(); at += code_point_length(bytes, at)) {
    offsets.push_back(at);
  }
  std::string out;
  std::int64_t index = bounds.start;
  for (std::int64_t left = bounds.count(); left > 0; --left, index += bounds.step) {
    const std::size_t at = offsets[static_cast<std::size_t>(index)];
    out += bytes.substr(at, code_point_length(bytes, at));
  }
  return make_text(std::move(out), budget, text.safe);
}

}  // namespace

Value get_slice(const Value& object, const std::optional<Value>& start, const std::optional<Value>& stop,
                const std::optional<Value>& step, Budget& budget) {
  require_defined(object);
  const Text* text = object.as_text();
  const Sequence* sequence = object.as_sequence();
  if (object.as_dict() != nullptr) {
    fail("unhashable type: 'slice'");
  }
  if (text == nullptr && (sequence == nullptr || !subscriptable(*sequence))) {
    fail("'{}' object is not subscriptable", type_name(object));
  }
  if (!is_slice_part(start) || !is_slice_part(stop) || !is_slice_part(step)) {
    fail("slice indices must be integers or None or have an __index__ method");
  }
  const SliceBounds bounds = slice_bounds(start, stop, step, length(object, budget));
  if (text != nullptr) {
    return slice_text(*text, bounds, budget);
  }
  budget.charge_items(static_cast<std::size_t>(bounds.count()));
  std::vector<Value> items;
  std::int64_t index = bounds.start;
  for (std::int64_t left = bounds.count(); left > 0; --left, index += bounds.step) {
    items.push_back(sequence->items[static_cast<std::size_t>(index)]);
  }
  return make_sequence(sequence->kind, std::move(items), budget);
}

}  // namespace lynx::text::jinja
