#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace lynx::text::jinja {

/// Parses a template. Throws Error: INVALID_ARGUMENT for bad syntax, UNIMPLEMENTED for what jinja2 has and we have not; both name
/// the line.
Block parse(std::string_view source);

}  // namespace lynx::text::jinja
