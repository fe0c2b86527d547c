#pragma once

// e^x in FP32 without libm, once for CPU and GPU. Only compares, multiplications, additions and integer operations, each rounded by
// itself, so every vector form of the same steps (device/exp_avx2.h, or a plain loop that the compiler turns into vectors) gives
// the same bits on every processor. A CUDA build needs -fmad=false. Coefficients: own minimax fit of (e^r - 1 - r) / r² on |r| <=
// ln(2)/2, relative error 3.1e-9.

#include <cstdint>

#include "device/portability.h"

namespace lynx {

inline constexpr float kExpLowest = -104.0f;  ///< e^x is below half the smallest subnormal: 0.
inline constexpr float kExpHighest = 89.0f;   ///< e^x is above the largest float: infinity.
inline constexpr float kExpLog2E = 1.44269504088896f;
inline constexpr float kExpRound = 12582912.0f;     ///< 1.5 · 2^23: adding it rounds to the nearest integer, ties to even.
inline constexpr float kExpLn2High = 0.693359375f;  ///< 10 bits of ln 2: its product with an exponent is exact.
inline constexpr float kExpLn2Low = -2.12194440054690583e-4f;
inline constexpr float kExpC2 = 0.499999934125f;
inline constexpr float kExpC3 = 0.166665201078f;
inline constexpr float kExpC4 = 0.0416683942109f;
inline constexpr float kExpC5 = 0.00836878041118f;
inline constexpr float kExpC6 = 0.00138144670593f;

/// Within 1 ulp of e^x, subnormal results included; exactly 1 at 0, 0 at -infinity, infinity on overflow; a NaN stays a NaN.
LYNX_HD inline float exp_f32(float x) {
  float clamped = kExpLowest > x ? kExpLowest : x;  // The order of the operands lets a NaN through.
  clamped = kExpHighest < clamped ? kExpHighest : clamped;
  const float shifted = clamped * kExpLog2E + kExpRound;
  const float n = shifted - kExpRound;
  const float r = (clamped - n * kExpLn2High) - n * kExpLn2Low;
  const float p = (((kExpC6 * r + kExpC5) * r + kExpC4) * r + kExpC3) * r + kExpC2;
  const float mantissa = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors: n may lie beyond the exponents of normal numbers. Only the second product rounds.
  const std::int32_t exponent = static_cast<std::int32_t>(float_to_bits(shifted) - float_to_bits(kExpRound));
  const std::int32_t half = exponent >> 1;
  const float scale_a = bits_to_float(static_cast<std::uint32_t>(half + 127) << 23);
  const float scale_b = bits_to_float(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return (mantissa * scale_a) * scale_b;
}

}  // namespace lynx
