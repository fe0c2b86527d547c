#pragma once

// The exact Residual's codes as the vector paths look them up: one gather a value. They say with whole numbers of the value's
// magnitude what docs/plane_format.md says with orders. Let X be the value's pattern, its sign turned by the level's, and Y the
// Anchor's view without a sign; for level 0, X is the value's pattern and Y the exponent field below the scale's, mantissa 0. Then
// X − Y = quotient · 2^k + raw bits, and the quotient is the symbol + lowest, or for level 0 256 · sign − (d − 1).

#include <cstdint>

#include "quant/plane_math.h"

namespace lynx::quant {

inline constexpr int kQuotients = 64;  ///< −32 … 31: none outside has a symbol. At level 0 without the sign.
inline constexpr int kNegativeZeroRow = kResidualContexts;  ///< Level 0, negative value: what it looks up with its sign turned.
inline constexpr int kNextBytes = 256;
inline constexpr int kEscapeQuotient = -512;

struct ResidualTables {
  /// By context and quotient + 32. Bits 0 … 3: bits of word and raw bits; 4 … 6: raw bits; 7: escape; from 8 on the word with a 1
  /// before it.
  alignas(64) std::uint32_t encode[(kResidualContexts + 1) * kQuotients];
  /// By context and the next 8 bits. Bits 0 … 2: length of the word − 1; 3 … 5: raw bits; 6 … 15: the quotient, kEscapeQuotient for
  /// an escape. Gathers of 32 bits may read one more.
  alignas(64) std::uint16_t decode[kResidualContexts * kNextBytes + 1];
};

/// For levels of the Anchor, or for those of a wide one. Thread-safe; made at the first call.
const ResidualTables& residual_tables(bool wide);

}  // namespace lynx::quant
