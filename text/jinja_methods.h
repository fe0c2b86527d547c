#pragma once

// Methods of Python's str, dict, list and tuple.

#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_value.h"

namespace lynx::text::jinja {

enum class MemberKind : std::uint8_t {
  kNone,         ///< Python has no such attribute on this type.
  kMethod,       ///< call_method() knows it.
  kMutating,     ///< Changes its object: jinja2's immutable sandbox denies it.
  kUnsupported,  ///< Python has it, we do not.
};
MemberKind member_kind(const Value& object, std::string_view name);

/// Whether `name` can only be a method that we do not have: calls of it are refused when a template is parsed.
bool is_unsupported_method(std::string_view name);

/// Only for names that member_kind() calls methods of `self`.
Value call_method(const Value& self, std::string_view name, const Arguments& arguments, Budget& budget);

/// The methods of str alone; in jinja_text_methods.cpp.
using TextMethod = Value (*)(const Text& self, const Arguments& arguments, Budget& budget);
TextMethod find_text_method(std::string_view name);

}  // namespace lynx::text::jinja
