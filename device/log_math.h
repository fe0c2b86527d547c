#pragma once

// ln(x) in FP32 without libm, once for CPU and GPU; rules as in device/exp_math.h. Coefficients: own minimax fit of
// (ln(1 + f) - f + f²/2) / f³ on [1/sqrt(2) - 1, sqrt(2) - 1], relative error of the logarithm 7.5e-10.

#include <cstdint>

#include "device/portability.h"

namespace lynx {

/// Within 1 ulp of ln(x), subnormal x included; exactly 0 at 1, -infinity at 0, infinity at infinity; NaN for x < 0 and NaN.
LYNX_HD inline float log_f32(float x) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  constexpr float kTwoTo23 = 8388608.0f;
  const bool subnormal = x < kSmallestNormal;
  const std::uint32_t bits = float_to_bits(subnormal ? x * kTwoTo23 : x);
  // x = 2^e · m with m in [1/sqrt(2), sqrt(2)): counting exponents from the bits of 1/sqrt(2) puts the split there.
  constexpr std::uint32_t kHalfSqrt2 = 0x3f3504f3u;
  const std::uint32_t from_split = bits - kHalfSqrt2;
  const std::int32_t exponent = (static_cast<std::int32_t>(from_split) >> 23) - (subnormal ? 23 : 0);
  const float m = bits_to_float((from_split & 0x007fffffu) + kHalfSqrt2);
  const float e = static_cast<float>(exponent);
  const float f = m - 1.0f;
  const float square = f * f;
  float p = 0.0674665152337f;
  p = p * f - 0.116756545708f;
  p = p * f + 0.118881588469f;
  p = p * f - 0.124055882416f;
  p = p * f + 0.142195527325f;
  p = p * f - 0.166679959049f;
  p = p * f + 0.200021186426f;
  p = p * f - 0.250000095983f;
  p = p * f + 0.333333126043f;
  const float tail = (p * f) * square + e * -2.12194440054690583e-4f;
  const float sum = f + (tail - 0.5f * square);
  const float result = sum + e * 0.693359375f;
  const float infinity = bits_to_float(0x7f800000u);
  if (x == 0.0f) return -infinity;
  if (!(x > 0.0f)) return bits_to_float(0x7fc00000u);
  return x == infinity ? x : result;
}

}  // namespace lynx
