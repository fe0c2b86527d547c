#pragma once

// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF. All functions are pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lynx::text {

/// One step of decoding.
struct Utf8Step {
  enum class Kind : std::uint8_t {
    kValid,       ///< A whole code point of `length` bytes.
    kInvalid,     ///< `length` bytes (≥ 1) that no code point begins with: the "maximal subpart" that one U+FFFD stands for.
    kIncomplete,  ///< The text ends inside a code point; `length` bytes of it are there.
  };
  Kind kind = Kind::kInvalid;
  std::uint8_t length = 1;
  char32_t code_point = 0;  ///< When valid.
};

/// Decodes what `text` begins with. `text` must not be empty.
Utf8Step decode_utf8(std::string_view text);

/// The byte offset of the first sequence that is invalid or cut off by the end; nullopt when all of `text` is valid.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// Number of code points of valid UTF-8.
std::size_t count_code_points(std::string_view text);

/// `code_point` must be a Unicode scalar value.
void append_utf8(std::string& out, char32_t code_point);

}  // namespace lynx::text
