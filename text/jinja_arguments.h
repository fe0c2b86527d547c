#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace lynx::text::jinja {

/// What a call passes: f(positional…, name=value…).
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find_named(std::string_view name) const;
  /// The value that the field `name` of str.format means: a position or a name.
  const Value& field(const std::string& name) const;
};

/// Arguments laid over the parameter names of a built-in. Valid while the Arguments live.
class Bound {
 public:
  /// Fails as Python does: too many, unknown, given twice, or one of the first `required` missing.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters,
        std::size_t required);

  bool has(std::size_t index) const { return values_[index] != nullptr; }
  /// Only when has(index).
  const Value& operator[](std::size_t index) const { return *values_[index]; }

  /// The argument, or nothing when it is missing or none. Fails when it has another type.
  std::optional<std::int64_t> integer(std::size_t index) const;
  const std::string* text(std::size_t index) const;
  bool truthy(std::size_t index, bool otherwise = false) const { return has(index) ? values_[index]->truthy() : otherwise; }

 private:
  [[noreturn]] void wrong_type(std::size_t index, std::string_view wanted) const;

  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace lynx::text::jinja
