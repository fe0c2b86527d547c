#include "device/bf16_math.h"

#include <cmath>
#include <cstdint>
#include <random>

#include "tests/catch.h"

namespace lynx {
namespace {

TEST_CASE("BF16 to FP32 and back is the identity for every value but signalling NaNs, which become quiet") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto value = static_cast<Bf16>(bits);
    const float wide = bf16_to_float(value);
    const Bf16 expected = std::isnan(wide) ? static_cast<Bf16>(value | 0x40) : value;
    wrong += float_to_bf16(wide) != expected;
  }
  CHECK(wrong == 0);
}

TEST_CASE("FP32 to BF16 picks the nearer neighbour and, at a tie, the even one") {
  constexpr unsigned kSeed = 20240611;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  int wrong = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    if (i % 4 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // An exact tie.
    if ((bits & 0x7f000000u) == 0x7f000000u) continue;      // Near overflow, where a neighbour is infinite; NaN.
    const double value = bits_to_float(bits);
    const auto below = static_cast<Bf16>(bits >> 16);
    const auto above = static_cast<Bf16>(below + 1);
    const double to_below = std::fabs(value - static_cast<double>(bf16_to_float(below)));
    const double to_above = std::fabs(value - static_cast<double>(bf16_to_float(above)));
    const Bf16 even = below % 2 == 0 ? below : above;
    const Bf16 expected = to_below < to_above ? below : (to_above < to_below ? above : even);
    wrong += float_to_bf16(bits_to_float(bits)) != expected;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Values beyond the largest BF16 round to infinity") {
  CHECK(float_to_bf16(3.4028235e38f) == 0x7f80);
  CHECK(float_to_bf16(-3.4028235e38f) == 0xff80);
}

}  // namespace
}  // namespace lynx
