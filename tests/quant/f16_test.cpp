#include "quant/f16_math.h"

#include <cmath>

#include "tests/catch.h"

namespace lynx::quant {
namespace {

/// The definition of binary16, in double arithmetic.
double by_definition(int half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST_CASE("All 65,536 halves") {
  int wrong = 0;
  for (int half = 0; half < 0x10000; ++half) {
    const float got = f16_to_float(static_cast<F16>(half));
    bool right = std::signbit(got) == ((half & 0x8000) != 0);
    if ((half & 0x7fff) > 0x7c00) {
      right = right && std::isnan(got) && (float_to_bits(got) & 0x00400000u) != 0;
    } else if ((half & 0x7fff) == 0x7c00) {
      right = right && std::isinf(got);
    } else {
      right = right && static_cast<double>(got) == by_definition(half);
    }
    if (!right) {
      CAPTURE(half, got);
      CHECK(right);
      if (++wrong > 5) break;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace lynx::quant
