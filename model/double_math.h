#pragma once

// ln, e^x, sine and cosine in double without libm, whose variants differ by processor. Only additions, multiplications, divisions
// and integer operations, each rounded by itself, so the bits are the same everywhere. Accurate to a few units of 1e-16: far below
// the rounding to float that follows every use (sampling noise, rotary frequencies and angles).

#include <bit>
#include <cstdint>

namespace lynx::model {

namespace double_math_detail {

inline constexpr double kLn2High = 6.93147180369123816490e-01;  ///< 32 bits: its product with an exponent is exact.
inline constexpr double kLn2Low = 1.90821492927058770002e-10;
inline constexpr double kRound = 6755399441055744.0;  ///< 1.5 · 2^52: adding it rounds to the nearest integer, ties to even.

}  // namespace double_math_detail

/// ln(x) for normal positive finite x.
inline double log_f64(double x) {
  using namespace double_math_detail;
  // x = 2^e · m with m in [1/sqrt(2), sqrt(2)): counting exponents from the bits of 1/sqrt(2) puts the split there.
  constexpr std::uint64_t kHalfSqrt2 = 0x3fe6a09e667f3bcdULL;
  const std::uint64_t from_split = std::bit_cast<std::uint64_t>(x) - kHalfSqrt2;
  const double e = static_cast<double>(static_cast<std::int64_t>(from_split) >> 52);
  const double m = std::bit_cast<double>((from_split & 0x000fffffffffffffULL) + kHalfSqrt2);
  // ln(m) = 2·atanh(s); |s| < 0.172, so the series ends below 1e-17.
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  return e * kLn2High + (e * kLn2Low + 2.0 * (s + s * series));
}

/// e^x for |x| < 700.
inline double exp_f64(double x) {
  using namespace double_math_detail;
  const double n = (x * 1.44269504088896340736 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double series = 1.0;
  for (int k = 14; k >= 1; --k) series = 1.0 + series * r * (1.0 / k);  // |r| < 0.347: r^15/15! is below 1e-18.
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023);
  return series * std::bit_cast<double>(exponent << 52);
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Sine and cosine of x for |x| < 2^20: beyond every position a context can hold.
inline SineCosine sine_cosine_f64(double x) {
  using namespace double_math_detail;
  // pi/2 in three parts; the first two have 33 bits, so that their products with n are exact.
  constexpr double kHalfPi1 = 1.57079632673412561417e+00;
  constexpr double kHalfPi2 = 6.07710050630396597660e-11;
  constexpr double kHalfPi3 = 2.02226624879595063154e-21;
  const double n = (x * 0.63661977236758134308 + kRound) - kRound;
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double square = r * r;
  double sine = 1.0;  // |r| < 0.786: the series end below 1e-17.
  for (int k = 16; k >= 2; k -= 2) sine = 1.0 - sine * square * (1.0 / (k * (k + 1)));
  sine *= r;
  double cosine = 1.0;
  for (int k = 17; k >= 1; k -= 2) cosine = 1.0 - cosine * square * (1.0 / (k * (k + 1)));
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

}  // namespace lynx::model
