// The law: a row of the product has the same bits alone and in any company, on any number of threads, in every weight format.

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/matmul/fixture.h"

namespace lynx::matmul {
namespace {

using quant::WeightType;

constexpr unsigned kSeed = 4711;
constexpr int kMostRows = 100;

// Sanitizers slow the kernels down by ten to a hundred times; there the law is checked on fewer counts and rows of W.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Shape {
  int n;
  int k;
};

/// The product of each row alone, on one thread.
std::vector<float> rows_alone(const PackedMatrix::Impl& weights, const std::vector<Bf16>& x, int m) {
  ThreadPool pool(1);
  std::vector<float> y(static_cast<std::size_t>(m) * static_cast<std::size_t>(weights.rows));
  for (int row = 0; row < m; ++row) {
    multiply_with(weights, x.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(weights.cols), 1, weights.cols,
                  y.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(weights.rows), weights.rows, pool);
  }
  return y;
}

/// Multiplies the last m rows of X, for every m of `counts`, and counts the rows that differ from `alone`.
int differing_rows(const PackedMatrix::Impl& weights, const std::vector<Bf16>& x, const std::vector<float>& alone,
                   const std::vector<int>& counts, ThreadPool& pool) {
  const auto n = static_cast<std::size_t>(weights.rows);
  const auto k = static_cast<std::size_t>(weights.cols);
  std::vector<float> y(static_cast<std::size_t>(kMostRows) * n);
  int differing = 0;
  for (int m : counts) {
    const auto first = static_cast<std::size_t>(kMostRows - m);
    std::fill(y.begin(), y.end(), -1.0f);
    multiply_with(weights, x.data() + first * k, m, weights.cols, y.data(), weights.rows, pool);
    for (std::size_t row = 0; row < static_cast<std::size_t>(m); ++row) {
      differing += !same_bits(&y[row * n], &alone[(first + row) * n], weights.rows);
    }
  }
  return differing;
}

void check_shape(const Shape& shape, WeightType type, const Path& path, const std::vector<int>& counts) {
  INFO(path.name << ", " << quant::weight_type_name(type) << ", N " << shape.n << ", K " << shape.k << ", seed " << kSeed);
  std::mt19937 random(kSeed);
  ThreadPool single(1);
  const auto weights = packed({random_tensor(type, shape.n, shape.k, random)}, path, single);
  const std::vector<Bf16> x = random_rows(kMostRows, shape.k, random);
  const std::vector<float> alone = rows_alone(*weights, x, kMostRows);
  for (int threads = 1; threads <= 4; ++threads) {
    INFO("threads " << threads);
    ThreadPool pool(threads);
    CHECK(differing_rows(*weights, x, alone, counts, pool) == 0);
  }
}

std::vector<int> every_count() {
  if (kSanitized) return {1, 2, 3, 4, 5, 7, 16, 17, 33, 100};
  std::vector<int> counts;
  for (int m = 1; m <= kMostRows; ++m) counts.push_back(m);
  return counts;
}

TEST_CASE("M = 1 … 100 on odd shapes") {
  for (const Path& path : paths()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 3}, Shape{17, 31}, Shape{49, 33}, Shape{16, 100}, Shape{5, 576}}) {
      check_shape(shape, WeightType::kBf16, path, every_count());
    }
    for (const Shape& shape : {Shape{1, 32}, Shape{7, 64}, Shape{17, 96}, Shape{49, 544}}) {
      check_shape(shape, WeightType::kQ4_1, path, every_count());
      check_shape(shape, WeightType::kQ8_0, path, every_count());
    }
    check_shape({33, 256}, WeightType::kQ4_K, path, every_count());
  }
}

TEST_CASE("M = 1 … 100 on real shapes") {
  // The slow paths run every count on a slice of the rows of W, and chosen counts on all of them.
  const std::vector<int> chosen{1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 33, 64, 97, 100};
  for (const Path& path : paths()) {
    const bool fast = !kSanitized && path.kernels->keeps_packed && path.name != "amxbf16, emulated tiles";
    for (const Shape& shape : {Shape{576, 576}, Shape{960, 576}, Shape{3072, 576}, Shape{576, 1536}}) {
      if (fast) {
        for (WeightType type : {WeightType::kQ4_1, WeightType::kQ8_0, WeightType::kBf16})
          check_shape(shape, type, path, every_count());
      } else {
        check_shape({40, shape.k}, WeightType::kQ4_1, path, every_count());
      }
    }
    if (!fast && !kSanitized) check_shape({960, 576}, WeightType::kQ4_1, path, {chosen.begin(), chosen.begin() + 10});
  }
}

TEST_CASE("A row's place in a pass of 600 rows, beyond every internal cut, changes nothing") {
  constexpr int kRows = 600;
  for (const Path& path : paths()) {
    INFO(path.name << ", seed " << kSeed);
    std::mt19937 random(kSeed);
    ThreadPool pool(3);
    const auto weights = packed({random_tensor(WeightType::kQ4_1, 100, 96, random)}, path, pool);
    const std::vector<Bf16> x = random_rows(kRows, 96, random);
    const std::vector<float> alone = rows_alone(*weights, x, kRows);
    const std::vector<float> together = product(*weights, x, kRows, pool);
    CHECK(same_bits(alone.data(), together.data(), kRows * 100));
  }
}

TEST_CASE("Strides of X and Y leave the bits and the gaps alone") {
  constexpr int kRows = 21;
  constexpr int kLdx = 107;
  constexpr int kLdy = 61;
  for (const Path& path : paths()) {
    INFO(path.name << ", seed " << kSeed);
    std::mt19937 random(kSeed);
    ThreadPool pool(2);
    const auto weights = packed({random_tensor(WeightType::kF32, 50, 100, random)}, path, pool);
    const std::vector<Bf16> dense = random_rows(kRows, 100, random);
    std::vector<Bf16> x(kRows * kLdx, 0x7fc0);  // NaN in the gaps.
    for (std::size_t row = 0; row < kRows; ++row) std::copy_n(&dense[row * 100], 100, &x[row * kLdx]);
    std::vector<float> y(kRows * kLdy, -7.0f);
    multiply_with(*weights, x.data(), kRows, kLdx, y.data(), kLdy, pool);
    const std::vector<float> expected = product(*weights, dense, kRows, pool);
    for (std::size_t row = 0; row < kRows; ++row) {
      CHECK(same_bits(&y[row * kLdy], &expected[row * 50], 50));
      CHECK(std::all_of(&y[row * kLdy + 50], &y[row * kLdy + kLdy], [](float gap) { return gap == -7.0f; }));
    }
  }
}

}  // namespace
}  // namespace lynx::matmul
