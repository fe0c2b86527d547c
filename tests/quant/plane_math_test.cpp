// The planes' formulas against exact rational arithmetic, for all BF16 values and all scales.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "quant/plane_math.h"
#include "tests/catch.h"

namespace lynx::quant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// By the definition, in double: exact for everything here.
double scale_value(int code) {
  return (1.0 + code % 8 / 8.0) * std::pow(2.0, code / 8 - 24);
}

/// x / scale to the nearest integer, ties to even, by comparing doubled products: `scale` has few bits, so nothing is rounded.
double nearest_multiple(double x, double scale, double limit) {
  if (std::abs(x) > scale * limit) return x < 0 ? -limit : limit;
  double n = std::floor(x / scale);
  while (n * scale > x) n -= 1;
  while ((n + 1) * scale <= x) n += 1;
  const double above = 2 * (x - n * scale) - scale;
  if (above > 0 || (above == 0 && std::fmod(n, 2.0) != 0)) n += 1;
  return n;
}

TEST_CASE("UE5M3 scales are what the format says, and in order") {
  for (int code = 0; code < 256; ++code) {
    REQUIRE(static_cast<double>(ue5m3_to_float(static_cast<std::uint8_t>(code))) == scale_value(code));
  }
  CHECK(ue5m3_to_float(0) == 0x1p-24f);
  CHECK(ue5m3_to_float(255) == 240.0f);
}

TEST_CASE("Scales are rounded up: the least that is not below") {
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    const float scale = ue5m3_to_float(static_cast<std::uint8_t>(code));
    REQUIRE(float_to_ue5m3_up(scale) == code);
    REQUIRE(float_to_ue5m3_up(std::nextafter(scale, 0.0f)) == code);
    REQUIRE(float_to_ue5m3_up(std::nextafter(scale, kInfinity)) == std::min(code + 1, 255));
  }
  for (const float tiny : {0.0f, -0.0f, 1e-45f, 1e-30f}) CHECK(float_to_ue5m3_up(tiny) == 0);
  for (const float huge : {241.0f, 3e38f, kInfinity}) CHECK(float_to_ue5m3_up(huge) == 255);
}

TEST_CASE("NaN and infinities are 0 to the Anchor, all other values themselves") {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<Bf16>(bits);
    const float x = bf16_to_float(value);
    REQUIRE(float_to_bits(anchor_input(value)) == (std::isfinite(x) ? float_to_bits(x) : 0));
  }
}

TEST_CASE("Codes, levels and int8 residuals of every value at every scale") {
  long wrong = 0;
  for (int code = 0; code < 256; ++code) {
    const float scale = ue5m3_to_float(static_cast<std::uint8_t>(code));
    const double exact_scale = scale_value(code);
    for (int bits = 0; bits < 65536; ++bits) {
      const float x = anchor_input(static_cast<Bf16>(bits));
      const double nearest = nearest_multiple(x, exact_scale, 1024);
      const int zero = (bits * 7 + code) % 256 - 128;  // Every zero meets every scale, and values of all sizes.
      const int level = anchor_code(x, scale, zero) + zero;
      wrong += level != std::clamp(nearest, static_cast<double>(zero), static_cast<double>(zero + 15)) ? 1 : 0;
      wrong += anchor_zero(x, scale) != std::clamp(nearest, -128.0, 127.0) ? 1 : 0;
      // With the level that is meant for it: elsewhere the difference is not exact, but the residual at its end all the same.
      const int own_level = static_cast<int>(std::clamp(nearest, -128.0, 142.0));
      const double rest = static_cast<double>(x) - own_level * exact_scale;
      const double residual = std::clamp(nearest_multiple(rest, exact_scale / 16, 8), -8.0, 7.0);
      wrong += int8_residual(x, own_level, scale) != residual ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("A level's value is exact but for one rounding to BF16") {
  long wrong = 0;
  for (int code = 0; code < 256; ++code) {
    for (int level = -2056; level <= 2279; ++level) {
      const float scale = ue5m3_to_float(static_cast<std::uint8_t>(code)) / 16;
      const double exact = level * scale_value(code) / 16;
      const double ulp = exact == 0 ? 1 : std::pow(2.0, std::ilogb(exact) - 7);
      const double rounded = nearest_multiple(exact, ulp, 1e6) * ulp;
      wrong += static_cast<double>(bf16_to_float(level_to_bf16(level, scale))) != rounded ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
  CHECK(level_to_bf16(0, 1.0f) == 0);
}

TEST_CASE("A group's scale reaches both ends") {
  CHECK(anchor_scale(0, 0) == 0);
  CHECK(ue5m3_to_float(anchor_scale(-7.5f, 7.5f)) == 1.0f);
  CHECK(ue5m3_to_float(anchor_scale(-7.5f, 7.53125f)) == 1.125f);
  CHECK(ue5m3_to_float(anchor_scale(118, 120)) == 1.0f);  // By the reach: 15 steps would be far more than the span.
  CHECK(ue5m3_to_float(anchor_scale(-120, -118)) == 1.0f);
  CHECK(anchor_scale(-3e38f, 3e38f) == 255);
  for (const auto& [lo, hi] : {std::pair{-1.0f, 3.0f}, {100.0f, 101.0f}, {-5.0f, -4.875f}, {0.0f, 1e-3f}, {-3.3e-5f, 2.9e-5f}}) {
    CAPTURE(lo, hi);
    const float scale = ue5m3_to_float(anchor_scale(lo, hi));
    const int zero = anchor_zero(lo, scale);
    for (const float x : {lo, hi}) {
      const int level = anchor_code(x, scale, zero) + zero;
      CHECK(std::abs(static_cast<float>(level) * scale - x) <= scale / 2);
    }
  }
}

TEST_CASE("BF16 patterns are numbered in the order of their values, and back") {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<Bf16>(bits);
    REQUIRE(bf16_from_order(bf16_order(value)) == value);
    REQUIRE(bf16_order(bf16_from_order(bits)) == bits);
  }
  CHECK(bf16_order(0x0000) == bf16_order(0x8000) + 1);
  for (int order = bf16_order(0xff80); order < bf16_order(0x7f80); ++order) {
    const float x = bf16_to_float(bf16_from_order(order));
    const float next = bf16_to_float(bf16_from_order(order + 1));
    REQUIRE((x < next || (x == 0 && next == 0)));
  }
}

TEST_CASE("Residual contexts: levels by themselves, then half octaves") {
  for (int level = 0; level < 4096; ++level) {
    const double octave = level < 16 ? 0 : std::floor(std::log2(level));
    const bool upper = level >= 1.5 * std::pow(2.0, octave);
    REQUIRE(residual_context(level) == (level < 16 ? level : static_cast<int>(8 + 2 * octave) + (upper ? 1 : 0)));
  }
  for (int context = 0; context < kResidualContexts; ++context) {
    const int expected = context == 0 ? 7 : std::clamp(3 - static_cast<int>(std::log2(context)), 0, 4);
    CHECK(residual_raw_bits(context) == expected);
  }
}

}  // namespace
}  // namespace lynx::quant
