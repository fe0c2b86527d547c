#include "text/jinja_arguments.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace lynx::text::jinja {

const Value* Arguments::find_named(std::string_view name) const {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

const Value& Arguments::field(const std::string& name) const {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size()) {
    if (index >= positional.size()) {
      fail("tuple index out of range");
    }
    return positional[index];
  }
  const Value* value = find_named(name);
  if (value == nullptr) {
    fail("the format field '{}' is not among the arguments", name);
  }
  return *value;
}

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters,
             std::size_t required)
    : function_(function), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters.size()) {
    fail("{}() takes at most {} argument(s) ({} given)", function, parameters.size(), arguments.positional.size());
  }
  for (std::size_t index = 0; index < arguments.positional.size(); ++index) {
    values_[index] = &arguments.positional[index];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      fail("{}() got an unexpected keyword argument '{}'", function, name);
    }
    const Value*& slot = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (slot != nullptr) {
      fail("{}() got multiple values for argument '{}'", function, name);
    }
    slot = &value;
  }
  for (std::size_t index = 0; index < required; ++index) {
    if (values_[index] == nullptr) {
      fail("{}() missing required argument '{}'", function, parameters.begin()[index]);
    }
  }
}

void Bound::wrong_type(std::size_t index, std::string_view wanted) const {
  require_defined(*values_[index]);
  fail("{}() argument {} must be {}, not {}", function_, index + 1, wanted, type_name(*values_[index]));
}

std::optional<std::int64_t> Bound::integer(std::size_t index) const {
  if (!has(index) || values_[index]->is_none()) {
    return std::nullopt;
  }
  if (!values_[index]->is_integer()) {
    wrong_type(index, "int");
  }
  return values_[index]->integer();
}

const std::string* Bound::text(std::size_t index) const {
  if (!has(index) || values_[index]->is_none()) {
    return nullptr;
  }
  if (!values_[index]->is_text()) {
    wrong_type(index, "str");
  }
  return &values_[index]->as_text()->bytes;
}

}  // namespace lynx::text::jinja
