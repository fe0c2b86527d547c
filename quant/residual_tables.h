#pragma once

// The exact Residual's codes as the vector paths look them up. They say with whole numbers of the value's magnitude what
// docs/plane_format.md says with orders. Let X be the value's pattern, its sign turned by the level's, and Y the Anchor's view
// without a sign; for level 0 X is the pattern without its sign, and Y the exponent field below the scale's with mantissa 0. Then X
// − Y = quotient · 2^k + raw bits. The quotient is symbol + lowest, or for level 0 1 − d.

#include <cstdint>

#include "quant/plane_math.h"

namespace lynx::quant {

/// Encoders have a row for each context, and one for level 0 with negative values; it has the place of the last context, which
/// would be that of levels from 3072 on.
inline constexpr int kResidualRows = kResidualContexts;
inline constexpr int kNegativeZeroRow = kResidualRows - 1;
inline constexpr int kQuotients = 64;  ///< −32 … 31: none outside has a symbol.
inline constexpr int kPackedSymbols = 512;
inline constexpr int kNextBytes = 256;
inline constexpr int kEscapeQuotient = -512;  ///< For decoders, which also find the sign of level 0's values in it, as 256.

struct ResidualTables {
  // Encoders' entries. Bits 0 … 2: how many raw bits; 3: an escape; from 4 on the word with a 1 before it.

  /// By row and quotient + 32. Gathers of 32 bits may read one more.
  alignas(64) std::uint16_t encode[kResidualRows * kQuotients + 1];
  /// The same without gaps: row r's begin at packed_from[r], the first one is for the quotient lowest[r], and the escape is the one
  /// with the number escape[r].
  alignas(64) std::uint16_t packed[kPackedSymbols];
  alignas(64) std::int16_t packed_from[kResidualRows];
  alignas(64) std::int16_t lowest[kResidualRows];
  alignas(64) std::int16_t escape[kResidualRows];

  /// By context and the next 8 bits. Bits 0 … 2: length of the word − 1; 3 … 5: raw bits; 6 … 15: the quotient. Gathers as above.
  alignas(64) std::uint16_t decode[kResidualContexts * kNextBytes + 1];
};

/// For levels of the Anchor, or for those of a wide one. Thread-safe; made at the first call.
const ResidualTables& residual_tables(bool wide);

}  // namespace lynx::quant
