// The counter-based generator against its authors' known answers, and the double functions against libm's.

#include <cmath>
#include <random>

#include "model/double_math.h"
#include "tests/catch.h"
#include "tests/model/sampler_oracle.h"

namespace lynx::model {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  CHECK(oracle::philox({0, 0, 0, 0}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(oracle::philox({~0U, ~0U, ~0U, ~0U}, ~0ULL) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(oracle::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ULL) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("double functions agree with long double libm") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-30, 30);
  std::uniform_real_distribution<double> angle(-1e6, 1e6);
  double worst_log = 0;
  double worst_exp = 0;
  double worst_angle = 0;
  for (int number = 0; number < 200000; ++number) {
    const double power = exponent(random);
    const double x = std::exp2(power);
    const double near_one = 1.0 + power * 1e-6;
    for (const double value : {x, near_one}) {
      const long double exact = std::log(static_cast<long double>(value));
      worst_log = std::max(worst_log, static_cast<double>(std::fabs((log_f64(value) - exact) / exact)));
    }
    const long double exact = std::exp(static_cast<long double>(power));
    worst_exp = std::max(worst_exp, static_cast<double>(std::fabs((exp_f64(power) - exact) / exact)));
    const double a = number % 2 == 0 ? angle(random) : power;
    const SineCosine value = sine_cosine_f64(a);
    worst_angle = std::max(worst_angle, static_cast<double>(std::fabs(value.sine - std::sin(static_cast<long double>(a)))));
    worst_angle = std::max(worst_angle, static_cast<double>(std::fabs(value.cosine - std::cos(static_cast<long double>(a)))));
  }
  CHECK(worst_log < 1e-15);
  CHECK(worst_exp < 1e-15);
  CHECK(worst_angle < 1e-15);
  CHECK(log_f64(1.0) == 0.0);
  CHECK(exp_f64(0.0) == 1.0);
  CHECK(sine_cosine_f64(0.0).sine == 0.0);
  CHECK(sine_cosine_f64(0.0).cosine == 1.0);
}

}  // namespace
}  // namespace lynx::model
