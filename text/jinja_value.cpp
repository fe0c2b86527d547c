#include "text/jinja_value.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

const Value* Dict::find(std::string_view key, Budget& budget) const {
  budget.charge_steps(1 + static_cast<std::int64_t>(entries.size() / 8));
  for (const auto& [name, value] : entries) {
    const Text* text = name.as_text();
    if (text != nullptr && text->bytes == key) {
      return &value;
    }
  }
  return nullptr;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  if (const Text* text = key.as_text()) {
    return find(text->bytes, budget);
  }
  for (const auto& [name, value] : entries) {
    if (equal(name, key, budget)) {
      return &value;
    }
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& entry) { return entry.first == name; });
  return found == attributes.end() ? nullptr : &found->second;
}

void Namespace::set(std::string_view name, Value value) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != attributes.end()) {
    found->second = std::move(value);
  } else {
    attributes.emplace_back(std::string(name), std::move(value));
  }
}

bool Value::truthy() const {
  struct Visitor {
    bool operator()(const Undefined&) const { return false; }
    bool operator()(None) const { return false; }
    bool operator()(bool value) const { return value; }
    bool operator()(std::int64_t value) const { return value != 0; }
    bool operator()(double value) const { return value != 0.0; }
    bool operator()(const std::shared_ptr<const Text>& text) const { return !text->bytes.empty(); }
    bool operator()(const std::shared_ptr<const Sequence>& sequence) const {
      return sequence->kind == SequenceKind::kGenerator || !sequence->items.empty();
    }
    bool operator()(const std::shared_ptr<const Dict>& dict) const { return !dict->entries.empty(); }
    bool operator()(Namespace*) const { return true; }
    bool operator()(const std::shared_ptr<Loop>&) const { return true; }
    bool operator()(const std::shared_ptr<const Function>&) const { return true; }
  };
  return std::visit(Visitor{}, data_);
}

int Value::nesting() const {
  if (const Sequence* sequence = as_sequence()) {
    return sequence->nesting;
  }
  if (const Dict* dict = as_dict()) {
    return dict->nesting;
  }
  if (const Function* function = as_function(); function != nullptr && function->self != nullptr) {
    return 1 + function->self->nesting();
  }
  return 0;
}

namespace {

int checked_nesting(int deepest, const Budget& budget) {
  if (deepest >= budget.max_nesting()) {
    throw Error(resource_exhausted(fmt::format("values are nested deeper than {} levels", budget.max_nesting())));
  }
  return deepest + 1;
}

void require_hashable(const Value& key) {
  const Sequence* sequence = key.as_sequence();
  if (key.as_dict() != nullptr || (sequence != nullptr && sequence->kind == SequenceKind::kList)) {
    fail("unhashable type: '{}'", type_name(key));
  }
  if (sequence != nullptr) {
    for (const Value& item : sequence->items) {
      require_hashable(item);
    }
  }
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right, Budget& budget) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(), [&](const Value& a, const Value& b) { return equal(a, b, budget); });
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
  if (left.entries.size() != right.entries.size()) {
    return false;
  }
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = right.find(entry.first, budget);
    return other != nullptr && equal(entry.second, *other, budget);
  });
}

bool same_identity(const Value& left, const Value& right) {
  if (left.as_namespace() != nullptr) {
    return left.as_namespace() == right.as_namespace();
  }
  if (left.as_loop() != nullptr) {
    return left.as_loop() == right.as_loop();
  }
  return left.as_function() != nullptr && left.as_function() == right.as_function();
}

}  // namespace

Value make_sequence(SequenceKind kind, std::vector<Value> items, Budget& budget) {
  budget.charge_items(items.size() + 1);
  int deepest = 0;
  for (const Value& item : items) {
    deepest = std::max(deepest, item.nesting());
  }
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  sequence->items = std::move(items);
  sequence->nesting = checked_nesting(deepest, budget);
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

Value make_dict(std::vector<std::pair<Value, Value>> entries, Budget& budget) {
  budget.charge_items(2 * entries.size() + 1);
  auto dict = std::make_shared<Dict>();
  int deepest = 0;
  for (auto& [key, value] : entries) {
    require_hashable(key);
    deepest = std::max({deepest, key.nesting(), value.nesting()});
    if (const Value* found = dict->find(key, budget)) {
      const auto index = static_cast<std::size_t>(
          std::find_if(dict->entries.begin(), dict->entries.end(), [&](const auto& entry) { return &entry.second == found; }) -
          dict->entries.begin());
      dict->entries[index].second = std::move(value);
    } else {
      dict->entries.emplace_back(std::move(key), std::move(value));
    }
  }
  dict->nesting = checked_nesting(deepest, budget);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value make_text(std::string bytes, Budget& budget, bool safe) {
  budget.charge_bytes(bytes.size());
  return Value::text(std::move(bytes), safe);
}

namespace {

Value valid_text(const std::string& bytes) {
  if (const auto offset = find_invalid_utf8(bytes)) {
    fail("a string is not valid UTF-8 at byte {}", *offset);
  }
  return Value::text(bytes);
}

Value from_json_at(const nlohmann::ordered_json& json, Budget& budget, int level) {
  checked_nesting(level, budget);
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::string: return valid_text(json.get_ref<const std::string&>());
    case Type::boolean: return Value(json.get<bool>());
    case Type::number_integer: return Value(json.get<std::int64_t>());
    case Type::number_float: return Value(json.get<double>());
    case Type::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail("the integer {} does not fit 64 bits with a sign", number);
      }
      return Value(static_cast<std::int64_t>(number));
    }
    case Type::array: {
      auto sequence = std::make_shared<Sequence>();
      sequence->items.reserve(json.size());
      for (const auto& item : json) {
        sequence->items.push_back(from_json_at(item, budget, level + 1));
        sequence->nesting = std::max(sequence->nesting, 1 + sequence->items.back().nesting());
      }
      return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
    }
    case Type::object: {
      auto dict = std::make_shared<Dict>();
      dict->entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        dict->entries.emplace_back(valid_text(key), from_json_at(value, budget, level + 1));
        dict->nesting = std::max(dict->nesting, 1 + dict->entries.back().second.nesting());
      }
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    case Type::null:
    case Type::binary:
    case Type::discarded: break;
  }
  return Value::none();
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json, Budget& budget) {
  return from_json_at(json, budget, 0);
}

std::string type_name(const Value& value) {
  struct Visitor {
    std::string operator()(const Undefined&) const { return "Undefined"; }
    std::string operator()(None) const { return "NoneType"; }
    std::string operator()(bool) const { return "bool"; }
    std::string operator()(std::int64_t) const { return "int"; }
    std::string operator()(double) const { return "float"; }
    std::string operator()(const std::shared_ptr<const Text>& text) const { return text->safe ? "Markup" : "str"; }
    std::string operator()(const std::shared_ptr<const Sequence>& sequence) const {
      switch (sequence->kind) {
        case SequenceKind::kList: return "list";
        case SequenceKind::kTuple: return "tuple";
        case SequenceKind::kRange: return "range";
        case SequenceKind::kDictKeys: return "dict_keys";
        case SequenceKind::kDictValues: return "dict_values";
        case SequenceKind::kDictItems: return "dict_items";
        case SequenceKind::kGenerator: break;
      }
      return "generator";
    }
    std::string operator()(const std::shared_ptr<const Dict>&) const { return "dict"; }
    std::string operator()(Namespace*) const { return "Namespace"; }
    std::string operator()(const std::shared_ptr<Loop>&) const { return "LoopContext"; }
    std::string operator()(const std::shared_ptr<const Function>& function) const {
      return function->kind == FunctionKind::kMacro ? "Macro" : "builtin_function_or_method";
    }
  };
  return value.visit(Visitor{});
}

void fail_undefined(const Value& value) {
  const auto* undefined = value.as<Undefined>();
  fail(undefined->message == nullptr ? "an undefined value was used" : *undefined->message);
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.charge_steps(1);
  if (left.is_number() && right.is_number()) {
    return left.is_integer() && right.is_integer() ? left.integer() == right.integer() : left.real() == right.real();
  }
  if (const Text* a = left.as_text(), *b = right.as_text(); a != nullptr && b != nullptr) {
    budget.charge_reading(std::min(a->bytes.size(), b->bytes.size()));
    return a->bytes == b->bytes;
  }
  if (const Sequence* a = left.as_sequence(), *b = right.as_sequence(); a != nullptr && b != nullptr) {
    const bool comparable = a->kind == b->kind && a->kind != SequenceKind::kGenerator && a->kind != SequenceKind::kDictValues;
    return a == b || (comparable && equal_items(a->items, b->items, budget));
  }
  if (const Dict* a = left.as_dict(), *b = right.as_dict(); a != nullptr && b != nullptr) {
    return a == b || equal_dicts(*a, *b, budget);
  }
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined()) || same_identity(left, right);
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.as_sequence() != nullptr || value.as_dict() != nullptr;
}

std::vector<Value> iterate(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.as_sequence()) {
    budget.charge_items(sequence->items.size());
    const auto first = sequence->items.begin() + static_cast<std::ptrdiff_t>(sequence->read);
    items.assign(first, sequence->items.end());
    if (sequence->kind == SequenceKind::kGenerator) {
      sequence->read = sequence->items.size();
    }
  } else if (const Dict* dict = value.as_dict()) {
    budget.charge_items(dict->entries.size());
    for (const auto& entry : dict->entries) {
      items.push_back(entry.first);
    }
  } else if (const Text* text = value.as_text()) {
    // Each character becomes a value of its own on the heap.
    budget.charge_items(2 * text->bytes.size());
    for (std::size_t at = 0; at < text->bytes.size();) {
      const std::size_t length = code_point_length(text->bytes, at);
      items.push_back(Value::text(text->bytes.substr(at, length)));
      at += length;
    }
  } else if (!value.is_undefined()) {
    fail("'{}' object is not iterable", type_name(value));
  }
  return items;
}

}  // namespace lynx::text::jinja
