#pragma once

// IEEE half precision (binary16) to FP32, once for CPU and GPU. Halves travel as std::uint16_t bit patterns.

#include <cstdint>

#include "device/portability.h"

namespace lynx::quant {

using F16 = std::uint16_t;

/// Exact; a NaN becomes a quiet NaN with the same payload. Independent of the thread's denormal mode: no FP32 denormal occurs.
LYNX_HD inline float f16_to_float(F16 half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u | (magnitude > 0x7c00u ? 0x00400000u : 0u);
  const std::uint32_t tiny = float_to_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t bits = magnitude < 0x0400u ? tiny : (magnitude < 0x7c00u ? normal : special);
  return bits_to_float(sign | bits);
}

}  // namespace lynx::quant
