#pragma once

// What happens to one value in the Anchor, int8 and exact planes (docs/plane_format.md), once for CPU and GPU. Integers, and FP32
// steps each rounded by itself; the products are exact, so that contraction into FMAs changes nothing, and neither does the
// thread's denormal mode: a value that small is far below half the smallest step.

#include <cstdint>

#include "device/bf16_math.h"
#include "device/portability.h"

namespace lynx::quant {

inline constexpr int kAnchorLevels = 16;      ///< Codes 0 … 15.
inline constexpr int kInt8Steps = 16;         ///< Steps of the int8 view in one of the Anchor.
inline constexpr int kResidualContexts = 32;  ///< Of the exact Residual's code.
inline constexpr int kZeroRawBits = 7;        ///< A value whose level is 0 keeps its mantissa as it is.

/// Nearest integer, ties to even, within ±limit (at most 2²¹). Not for NaN.
LYNX_HD inline int round_within(float x, int limit) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2²³: adding it rounds to the nearest integer.
  const float most = static_cast<float>(limit);
  const float clamped = x < -most ? -most : (x > most ? most : x);
  return static_cast<int>(float_to_bits(clamped + kRound) - float_to_bits(kRound));
}

/// UE5M3: (1 + mantissa / 8) · 2^(exponent − 24), exponent in the upper five bits: 2⁻²⁴ … 240. Exact.
LYNX_HD inline float ue5m3_to_float(std::uint8_t code) {
  return bits_to_float((static_cast<std::uint32_t>(code) << 20) + (103u << 23));
}

/// The least scale that is not below x; the greatest if none is. x ≥ 0 (either zero), infinity included.
LYNX_HD inline std::uint8_t float_to_ue5m3_up(float x) {
  constexpr std::uint32_t kLeast = 103u << 23;
  if (!(x > 0x1p-24f)) return 0;
  const std::uint32_t code = (float_to_bits(x) - kLeast + 0xfffffu) >> 20;
  return static_cast<std::uint8_t>(code < 255 ? code : 255);
}

/// What the Anchor sees of a value: NaN and infinities are 0 to it.
LYNX_HD inline float anchor_input(Bf16 value) {
  return (value & 0x7f80u) == 0x7f80u ? 0.0f : bf16_to_float(value);
}

/// The scale of a group whose values span lo … hi: 15 steps reach from end to end, 120 from 0 to either.
LYNX_HD inline std::uint8_t anchor_scale(float lo, float hi) {
  const float from_zero = -lo > hi ? -lo : hi;
  const float by_span = (hi - lo) / 15.0f;
  const float by_reach = from_zero / 120.0f;
  return float_to_ue5m3_up(by_span > by_reach ? by_span : by_reach);
}

/// The level of code 0, −128 … 127.
LYNX_HD inline std::int8_t anchor_zero(float lo, float scale) {
  const int zero = round_within(lo / scale, 128);
  return static_cast<std::int8_t>(zero < 127 ? zero : 127);
}

/// 0 … 15. The level is code + zero, −128 … 142; the Anchor's value is level · scale.
LYNX_HD inline int anchor_code(float x, float scale, int zero) {
  const int code = round_within(x / scale, 1024) - zero;
  return code < 0 ? 0 : (code > kAnchorLevels - 1 ? kAnchorLevels - 1 : code);
}

/// A view's value. Exact but for the rounding to BF16: a level has at most 12 bits, a scale 4.
LYNX_HD inline Bf16 level_to_bf16(int level, float scale) {
  return float_to_bf16(static_cast<float>(level) * scale);
}

/// −8 … 7: the int8 view's value is (16 · level + residual) · (scale / 16).
LYNX_HD inline int int8_residual(float x, int level, float scale) {
  const float rest = x - static_cast<float>(level) * scale;
  const int residual = round_within(rest / (scale / kInt8Steps), 8);
  return residual < 7 ? residual : 7;
}

/// The int8 view's level: the Anchor's, and the residual as it is stored, + 8.
LYNX_HD inline int int8_level(int level, int stored_residual) {
  return level * kInt8Steps + stored_residual - 8;
}

/// Numbers BF16 patterns in the order of their values, −0 before +0. The exact Residual is a difference of two.
LYNX_HD inline int bf16_order(Bf16 value) {
  return (value & 0x8000u) != 0 ? value ^ 0xffff : value ^ 0x8000;
}
LYNX_HD inline Bf16 bf16_from_order(int order) {
  return static_cast<Bf16>((order & 0x8000) != 0 ? order ^ 0x8000 : order ^ 0xffff);
}

/// Which code the Residual of a value at ±level has: 0 … 15 by itself, then two to an octave. level: 0 … 4095.
LYNX_HD inline int residual_context(int level) {
  if (level < 16) return level;
  int octave = 4;
  while (level >> (octave + 1) != 0) ++octave;
  return 16 + (octave - 4) * 2 + ((level >> (octave - 1)) & 1);
}

/// How many low bits of a Residual travel as they are: a step is about 2⁷ / level BF16 values wide.
LYNX_HD inline int residual_raw_bits(int context) {
  if (context == 0) return kZeroRawBits;
  return context < 2 ? 3 : (context < 4 ? 2 : (context < 8 ? 1 : 0));
}

/// The biased exponent of a scale, as a BF16 value has it.
LYNX_HD inline int scale_exponent(float scale) {
  return static_cast<int>(float_to_bits(scale) >> 23);
}

}  // namespace lynx::quant
