#pragma once

// The prefix code of the lossless plane: exponents 0 … 255, code words of at most 8 bits. docs/plane_format.md has the layout.

#include <cstddef>
#include <cstdint>

namespace lynx::quant {

inline constexpr int kExponents = 256;
inline constexpr int kLongestCode = 8;
inline constexpr std::size_t kMostTableBytes = kExponents / 2;

/// Code word lengths in bits; 0 = the exponent does not occur.
struct CodeLengths {
  alignas(64) std::uint8_t of[kExponents];
};

/// For encoding: the canonical code words, in the low bits.
struct ExponentCode {
  CodeLengths lengths;
  alignas(64) std::uint8_t words[kExponents];
};

/// For decoding. Seven bits are enough to know a length: the two words that share them are either both eight bits long, or the
/// same.
struct ExponentTable {
  alignas(64) std::uint8_t exponents[256];  ///< By the next 8 bits of the stream.
  alignas(64) std::uint8_t lengths[128];    ///< By the next 7 bits.
};

/// The best complete code of words up to 8 bits for exponents that occur so often. At least one count is not 0; they add up to
/// less than 2³².
ExponentCode make_code(const std::uint32_t (&counts)[kExponents]);

/// Writes the code table; its bytes: at least 2, at most kMostTableBytes.
std::size_t write_lengths(const CodeLengths& lengths, std::byte* out);

/// Reads a code table from untrusted bytes; its bytes, or 0 if it is malformed or ends early.
std::size_t read_lengths(const std::byte* table, std::size_t bytes, CodeLengths* lengths);

/// False if the lengths are not those of a complete prefix code.
bool make_table(const CodeLengths& lengths, ExponentTable* table);

}  // namespace lynx::quant
