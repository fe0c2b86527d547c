#pragma once

// The values a template works with: Python's, as far as chat templates can tell. Immutable but for namespaces and for how far a
// generator has been read; shared, never copied deep.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja_budget.h"

namespace lynx::text::jinja {

class Value;
struct MacroStatement;

/// UTF-8. `safe` is what the `safe` and `escape` filters make (markupsafe's Markup): text joined to it by + is HTML-escaped.
struct Text {
  std::string bytes;
  bool safe = false;
};

/// What jinja2 gives for a name or a member that is not there. It prints as nothing and fails when worked with.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

enum class SequenceKind : std::uint8_t { kList, kTuple, kRange, kDictKeys, kDictValues, kDictItems, kGenerator };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int nesting = 1;
  mutable std::size_t read = 0;  ///< Generators give each item once.
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  ///< In insertion order.
  int nesting = 1;

  /// Python's d.get(key), without hashing: dictionaries in templates are small, and each comparison is charged.
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key, Budget& budget) const;
};

/// namespace(…): the one thing templates can change. Owned by the render (they may hold each other).
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// The `loop` variable of a for statement.
class Loop {
 public:
  virtual ~Loop() = default;
  /// Empty pointer: there is no such attribute.
  virtual std::shared_ptr<const Value> attribute(std::string_view name) = 0;
};

enum class FunctionKind : std::uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow, kMacro, kMethod };

/// Something to call: a global, a macro, or a method bound to a value (`self`).
struct Function {
  FunctionKind kind;
  std::string name;
  const MacroStatement* macro = nullptr;
  std::shared_ptr<const Value> self;
};

struct None {};

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<Loop>, std::shared_ptr<const Function>>;

  Value() = default;  ///< Undefined without a message.
  template <class T>
  explicit Value(T data) : data_(std::move(data)) {}
  explicit Value(int number) : data_(std::int64_t{number}) {}

  static Value none() { return Value(None{}); }
  static Value text(std::string bytes, bool safe = false) {
    return Value(std::shared_ptr<const Text>(std::make_shared<Text>(Text{std::move(bytes), safe})));
  }
  static Value undefined(std::string message) { return Value(Undefined{std::make_shared<const std::string>(std::move(message))}); }

  /// The value as a T of the variant, or null.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  template <class Visitor>
  auto visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), data_);
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  bool is_text() const { return as_text() != nullptr; }
  const Text* as_text() const { return pointee<Text>(); }
  const Sequence* as_sequence() const { return pointee<Sequence>(); }
  const Dict* as_dict() const { return pointee<Dict>(); }
  const Function* as_function() const { return pointee<Function>(); }
  Loop* as_loop() const {
    const auto* loop = as<std::shared_ptr<Loop>>();
    return loop == nullptr ? nullptr : loop->get();
  }
  Namespace* as_namespace() const {
    Namespace* const* found = as<Namespace*>();
    return found == nullptr ? nullptr : *found;
  }
  /// Python's int, of which bool is a kind.
  bool is_integer() const { return as<std::int64_t>() != nullptr || as<bool>() != nullptr; }
  bool is_number() const { return is_integer() || as<double>() != nullptr; }
  /// Only when is_integer().
  std::int64_t integer() const { return as<bool>() != nullptr ? std::int64_t{*as<bool>()} : *as<std::int64_t>(); }
  /// Only when is_number().
  double real() const { return as<double>() != nullptr ? *as<double>() : static_cast<double>(integer()); }

  /// Python's truth. A generator, a function, a namespace: true.
  bool truthy() const;
  /// How deep lists and dictionaries are nested in it; 0 for scalars.
  int nesting() const;

 private:
  template <class T>
  const T* pointee() const {
    const auto* pointer = as<std::shared_ptr<const T>>();
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
};

/// RESOURCE_EXHAUSTED when the nesting or the size passes the budget.
Value make_sequence(SequenceKind kind, std::vector<Value> items, Budget& budget);
inline Value make_list(std::vector<Value> items, Budget& budget) {
  return make_sequence(SequenceKind::kList, std::move(items), budget);
}
/// Later entries replace earlier ones of the same key, as in Python. A list or a dictionary as key fails.
Value make_dict(std::vector<std::pair<Value, Value>> entries, Budget& budget);
/// Text whose size the caller did not know beforehand.
Value make_text(std::string bytes, Budget& budget, bool safe = false);

/// INVALID_ARGUMENT for integers beyond 64 bits.
Value from_json(const nlohmann::ordered_json& json, Budget& budget);

/// "str", "int", "NoneType", … as Python's type(value).__name__.
std::string type_name(const Value& value);

/// Throws the message that an undefined value carries.
[[noreturn]] void fail_undefined(const Value& value);
inline void require_defined(const Value& value) {
  if (value.is_undefined()) {
    fail_undefined(value);
  }
}

/// Python's ==. Charged by size.
bool equal(const Value& left, const Value& right, Budget& budget);

/// Whether iterate() accepts it.
bool is_iterable(const Value& value);

/// Everything iter(value) gives, a generator's rest being used up: items, keys, characters; nothing for an undefined value. Fails
/// as Python does for the rest.
std::vector<Value> iterate(const Value& value, Budget& budget);

}  // namespace lynx::text::jinja
