#pragma once

// Strings by code point, as Python sees them. All text here is valid UTF-8: templates and their input are checked on the way in.

#include <cstddef>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace lynx::text::jinja {

/// Bytes of the code point that starts at `at` (< text.size()).
inline std::size_t code_point_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}
char32_t code_point_at(std::string_view text, std::size_t at);
/// Where code point number `index` starts; text.size() when there are fewer.
std::size_t code_point_offset(std::string_view text, std::size_t index);
/// Where the last code point of `text` (not empty) starts.
std::size_t last_code_point(std::string_view text);

/// str.isspace() of one code point.
bool is_space(char32_t code_point);
/// The first place at or after `at` that is not white space.
std::size_t skip_space(std::string_view text, std::size_t at);
std::string_view strip_space_left(std::string_view text);
std::string_view strip_space_right(std::string_view text);

/// str.upper(), lower(), capitalize() and title(). A capital sigma that ends a word becomes ς; marks that Unicode calls
/// case-ignorable are not looked through for that.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string to_title(std::string_view text);

/// str.isprintable(): whether repr() shows every code point as it is.
bool is_printable(std::string_view text);

}  // namespace lynx::text::jinja
