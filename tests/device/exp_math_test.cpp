#include "device/exp_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/isa.h"
#include "device/log_math.h"
#include "tests/catch.h"
#include "tests/device/exp_vectors.h"

namespace lynx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr long double kOverflow = 0x1.ffffffp127L;  ///< From here on the nearest float is infinity.

/// Distance in units of the last place of a float near `exact`.
double ulps(float value, long double exact) {
  if (std::isinf(value)) return exact >= kOverflow * (1 - 1e-7L) ? 0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / std::ldexp(1.0L, std::max(exponent - 24, -149)));
}

/// Every `stride`-th bit pattern: all exponents, both signs, infinities and NaNs.
template <class Visit>
void sweep(std::uint64_t stride, Visit visit) {
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += stride) visit(bits_to_float(static_cast<std::uint32_t>(bits)));
}

TEST_CASE("exp_f32 is within one unit of the last place everywhere") {
  double worst = 0;
  float worst_at = 0;
  sweep(1511, [&](float x) {
    if (std::isnan(x)) {
      if (!std::isnan(exp_f32(x))) FAIL("NaN became " << exp_f32(x));
      return;
    }
    const double error = ulps(exp_f32(x), std::exp(static_cast<long double>(x)));
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  });
  CAPTURE(worst_at);
  CHECK(worst <= 1.0);
}

TEST_CASE("exp_f32 around every power of two and at its ends") {
  double worst = 0;
  for (int n = -150; n <= 128; ++n) {
    for (int step = -2000; step <= 2000; ++step) {
      const float border = static_cast<float>((n + 0.5) * 0.693147180559945);
      const float x = bits_to_float(float_to_bits(border) + static_cast<std::uint32_t>(step));
      worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
    }
  }
  CHECK(worst <= 1.0);
  CHECK(exp_f32(0.0f) == 1.0f);
  CHECK(exp_f32(-0.0f) == 1.0f);
  CHECK(exp_f32(-kInfinity) == 0.0f);
  CHECK(exp_f32(kInfinity) == kInfinity);
  CHECK(exp_f32(-1e30f) == 0.0f);
  CHECK(exp_f32(88.72283f) < kInfinity);
  CHECK(exp_f32(88.7229f) == kInfinity);
  CHECK(exp_f32(-103.9f) == std::numeric_limits<float>::denorm_min());
}

TEST_CASE("log_f32 is within one unit of the last place for every positive float") {
  double worst = 0;
  float worst_at = 0;
  const auto visit = [&](float x) {
    if (!(x > 0) || std::isinf(x)) return;
    const double error = ulps(log_f32(x), std::log(static_cast<long double>(x)));
    if (error > worst) {
      worst = error;
      worst_at = x;
    }
  };
  sweep(1511, visit);
  for (std::uint32_t bits = 0x3f700000u; bits < 0x3f900000u; bits += 3) visit(bits_to_float(bits));  // Around 1.
  CAPTURE(worst_at);
  CHECK(worst <= 1.0);
  CHECK(log_f32(1.0f) == 0.0f);
  CHECK(log_f32(0.0f) == -kInfinity);
  CHECK(log_f32(-0.0f) == -kInfinity);
  CHECK(log_f32(kInfinity) == kInfinity);
  CHECK(std::isnan(log_f32(-1.0f)));
  CHECK(std::isnan(log_f32(-kInfinity)));
  CHECK(std::isnan(log_f32(std::numeric_limits<float>::quiet_NaN())));
}

void check_vector_form(void (*form)(const float*, float*, int)) {
  constexpr int kCount = 1 << 16;
  std::vector<float> in(kCount);
  std::vector<float> out(kCount);
  std::uint64_t bits = 0;
  int wrong = 0;
  for (int round = 0; round < 64; ++round) {
    for (float& x : in) {
      x = bits_to_float(static_cast<std::uint32_t>(bits));
      bits += 1021;
    }
    form(in.data(), out.data(), kCount);
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float expected = exp_f32(in[at]);
      const bool same = std::isnan(expected) ? std::isnan(out[at]) : float_to_bits(out[at]) == float_to_bits(expected);
      wrong += same ? 0 : 1;
    }
  }
  CHECK(bits > 0xfe000000u);
  CHECK(wrong == 0);
}

TEST_CASE("The vector forms of exp give the scalar form's bits") {
  if (isa_supported(Isa::kAvx2)) {
    check_vector_form(exp_values_avx2);
  } else {
    WARN("This processor has no AVX2: exp_avx2 was not compared.");
  }
  if (isa_supported(Isa::kAvx512Bf16)) {
    check_vector_form(exp_values_avx512);
  } else {
    WARN("This processor has no AVX-512 BF16: a loop compiled for it was not compared.");
  }
}

}  // namespace
}  // namespace lynx
