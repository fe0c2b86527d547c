#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace lynx::text {

/// Bytes of tokens in, complete UTF-8 out. A code point that is split over tokens is held back until it is whole; what can never
/// become one is U+FFFD, once per maximal subpart. However the bytes are split, the joined output is what Python's
/// `bytes.decode("utf-8", errors="replace")` gives for the joined input.
class Utf8Assembler {
 public:
  /// The text that `bytes` completes; may be empty.
  std::string push(std::string_view bytes);

  /// At the end: U+FFFD for a code point that was never completed, else nothing.
  std::string finish();

  /// Bytes held back (0…3).
  std::size_t held_bytes() const { return held_size_; }

  /// Code points given out so far: where in the text, in code points, the next token's text begins.
  std::size_t code_points() const { return code_points_; }

 private:
  std::array<char, 3> held_{};
  std::size_t held_size_ = 0;
  std::size_t code_points_ = 0;
};

}  // namespace lynx::text
