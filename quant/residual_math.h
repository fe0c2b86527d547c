#pragma once

// What a value's exact Residual is made of (docs/plane_format.md), once for CPU and GPU. quant/residual_code.h has the codes of the
// symbols.

#include "device/bf16_math.h"
#include "device/portability.h"
#include "quant/plane_math.h"

namespace lynx::quant {

/// Symbols of level 0: 8 · sign + (exponent of the scale − exponent − 1), for differences of 1 … 8.
inline constexpr int kZeroOctaves = 8;

struct ResidualSymbol {
  int index;  ///< In its context; the context's escape if the value has none.
  unsigned raw;
};

/// `lowest` and `escape` are the context's; raw_bits follow from it.
LYNX_HD inline ResidualSymbol residual_symbol(int lowest, int escape, int raw_bits, Bf16 value, int level, float scale) {
  if (level == 0) {
    const int octave = scale_exponent(scale) - ((value >> 7) & 0xff);
    if (octave < 1 || octave > kZeroOctaves) return {escape, 0};
    return {(value >> 15) * kZeroOctaves + octave - 1, value & 0x7fu};
  }
  const int apart = bf16_order(value) - bf16_order(level_to_bf16(level, scale));
  const int difference = level < 0 ? -apart : apart;
  const int index = (difference >> raw_bits) - lowest;
  if (index < 0 || index >= escape) return {escape, 0};
  return {index, static_cast<unsigned>(difference) & ((1u << raw_bits) - 1)};
}

/// The way back, for symbols that are not the escape.
LYNX_HD inline Bf16 residual_value(int lowest, int raw_bits, ResidualSymbol symbol, int level, float scale) {
  if (level == 0) {
    const int exponent = scale_exponent(scale) - 1 - symbol.index % kZeroOctaves;
    return static_cast<Bf16>(symbol.index / kZeroOctaves << 15 | exponent << 7 | static_cast<int>(symbol.raw));
  }
  const int difference = (symbol.index + lowest) * (1 << raw_bits) + static_cast<int>(symbol.raw);
  return bf16_from_order(bf16_order(level_to_bf16(level, scale)) + (level < 0 ? -difference : difference));
}

}  // namespace lynx::quant
