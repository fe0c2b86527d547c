#pragma once

// BF16 <-> FP32 formulas, once for CPU and GPU. BF16 values travel as std::uint16_t bit patterns.

#include <cstdint>

#include "device/portability.h"

namespace lynx {

using Bf16 = std::uint16_t;

/// Exact.
LYNX_HD inline float bf16_to_float(Bf16 value) {
  return bits_to_float(static_cast<std::uint32_t>(value) << 16);
}

/// Ties to even; NaN stays a (quiet) NaN.
LYNX_HD inline Bf16 float_to_bf16(float value) {
  std::uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Bf16>((bits >> 16) | 0x40u);
  return static_cast<Bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace lynx
