// The product against double precision, and packed weights against the BF16-rounded values that they stand for.

#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/matmul/fixture.h"

namespace lynx::matmul {
namespace {

using quant::WeightType;

constexpr unsigned kSeed = 1234;
constexpr WeightType kAllTypes[] = {WeightType::kF32,  WeightType::kF16,  WeightType::kBf16, WeightType::kQ4_0,
                                    WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
                                    WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

/// The largest error in units of what FP32 rounding allows: K + 1 roundings of a partial sum no larger than Σ|x·w|.
double worst_error(const Tensor& tensor, const std::vector<Bf16>& x, int m, const std::vector<float>& y) {
  const std::vector<float> w = bf16_tensor(tensor).values();
  const auto n = static_cast<std::size_t>(tensor.rows);
  const auto k = static_cast<std::size_t>(tensor.cols);
  double worst = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(m); ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const double term = static_cast<double>(bf16_to_float(x[row * k + i])) * static_cast<double>(w[column * k + i]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double allowed = (static_cast<double>(k) + 1) * 0x1p-24 * magnitude + 1e-30;
      worst = std::max(worst, std::fabs(sum - static_cast<double>(y[row * n + column])) / allowed);
    }
  }
  return worst;
}

TEST_CASE("The product is exact up to FP32 rounding, in every format and path") {
  for (const Path& path : paths()) {
    ThreadPool pool(2);
    std::mt19937 random(kSeed);
    for (WeightType type : kAllTypes) {
      INFO(path.name << ", " << quant::weight_type_name(type) << ", seed " << kSeed);
      const int k = quant::block_values(type) == 1 ? 300 : 512;
      const Tensor tensor = random_tensor(type, 53, k, random);
      const std::vector<Bf16> x = random_rows(19, k, random);
      const auto weights = packed({tensor}, path, pool);
      for (int m : {1, 3, 19}) CHECK(worst_error(tensor, x, m, product(*weights, x, m, pool)) < 1.0);
    }
  }
}

TEST_CASE("Every K and N from 1 to 70 is exact up to FP32 rounding") {
  for (const Path& path : paths()) {
    INFO(path.name << ", seed " << kSeed);
    ThreadPool pool(1);
    std::mt19937 random(kSeed);
    double worst = 0;
    for (int size = 1; size <= 70; ++size) {
      for (const auto& [n, k] : {std::pair{size, 37}, std::pair{21, size}}) {
        const Tensor tensor = random_tensor(WeightType::kBf16, n, k, random);
        const std::vector<Bf16> x = random_rows(5, k, random);
        worst = std::max(worst, worst_error(tensor, x, 5, product(*packed({tensor}, path, pool), x, 5, pool)));
      }
    }
    CHECK(worst < 1.0);
  }
}

TEST_CASE("Packed weights give the bits of the BF16-rounded dequantized ones") {
  for (const Path& path : paths()) {
    ThreadPool pool(2);
    std::mt19937 random(kSeed);
    for (WeightType type : kAllTypes) {
      // From ordinary weights down to those that BF16 holds as subnormals, or not at all.
      for (float scale : {0.02f, 1000.0f, 6e-5f}) {
        INFO(path.name << ", " << quant::weight_type_name(type) << ", scale " << scale << ", seed " << kSeed);
        const Tensor tensor = random_tensor(type, 90, 768, random, scale);
        const std::vector<Bf16> x = random_rows(37, 768, random);
        const auto weights = packed({tensor}, path, pool);
        const auto rounded = packed({bf16_tensor(tensor)}, path, pool);
        for (int m : {1, 2, 4, 5, 37}) {
          const std::vector<float> a = product(*weights, x, m, pool);
          const std::vector<float> b = product(*rounded, x, m, pool);
          REQUIRE(same_bits(a.data(), b.data(), m * 90));
        }
      }
    }
  }
}

TEST_CASE("Infinities, NaN and subnormals in weights and rows do no harm, and keep the law") {
  constexpr Bf16 kSpecial[] = {0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8001, 0x7f7f, 0x0080, 0x8000};
  for (const Path& path : paths()) {
    INFO(path.name << ", seed " << kSeed);
    ThreadPool pool(2);
    std::mt19937 random(kSeed);
    for (WeightType type : kAllTypes) {
      Tensor tensor = random_tensor(type, 33, 256, random);
      for (std::size_t i = 0; i < 40; ++i) tensor.bytes[random() % tensor.bytes.size()] = std::byte{0xff};
      std::vector<Bf16> x = random_rows(20, 256, random);
      for (Bf16 special : kSpecial) x[random() % x.size()] = special;
      const auto weights = packed({tensor}, path, pool);
      const std::vector<float> all = product(*weights, x, 20, pool);
      int differing = 0;
      for (std::size_t row = 0; row < 20; ++row) {
        const std::vector<Bf16> alone(x.begin() + static_cast<std::ptrdiff_t>(row * 256),
                                      x.begin() + static_cast<std::ptrdiff_t>(row * 256 + 256));
        const std::vector<float> y = product(*weights, alone, 1, pool);
        for (std::size_t n = 0; n < 33; ++n) {
          // Which NaN an operation returns depends on the order of its operands; that it is one does not.
          const bool both_nan = std::isnan(y[n]) && std::isnan(all[row * 33 + n]);
          differing += !both_nan && !same_bits(&y[n], &all[row * 33 + n], 1);
        }
      }
      CHECK(differing == 0);
    }
  }
}

}  // namespace
}  // namespace lynx::matmul
