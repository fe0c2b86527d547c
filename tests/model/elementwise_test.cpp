#include "model/elementwise.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/catch.h"
#include "tests/model/forward_fixture.h"

namespace lynx::model {
namespace {

std::vector<float> random_values(std::mt19937& random, int count) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  for (const float special : {0.0F, -0.0F, 120.0F, -120.0F, 1e-30F, 1e20F}) {
    if (random() % 8 == 0) values[random() % values.size()] = special;
  }
  return values;
}

/// Everything the kernels of a path make of one random input.
std::vector<Bf16> results(const ElementwiseKernels& kernels, unsigned seed, int n) {
  std::mt19937 random(seed);
  auto x = random_values(random, n);
  const auto y = random_values(random, n);
  const auto size = static_cast<std::size_t>(n);
  std::vector<Bf16> out(3 * size);
  kernels.rms_norm(x.data(), y.data(), n, 1e-5F, out.data());
  kernels.swiglu(x.data(), y.data(), n, out.data() + size);
  kernels.add(x.data(), y.data(), n);
  kernels.round(x.data(), n, out.data() + 2 * size);
  const int head_dim = n % 2 == 0 ? n : n - 1;
  if (head_dim > 0) {
    kernels.rotate_half(x.data(), y.data(), y.data() + head_dim / 2, 1, head_dim);
    kernels.rotate_interleaved(x.data(), y.data(), y.data() + head_dim / 2, 1, head_dim);
  }
  out.resize(5 * size);
  std::memcpy(out.data() + 3 * size, x.data(), size * sizeof(float));
  return out;
}

TEST_CASE("elementwise kernels give the same bits on every path") {
  for (const Isa isa : supported_paths()) {
    for (int n = 1; n <= 150; ++n) {
      INFO(isa_name(isa) << ", n " << n);
      CHECK(results(elementwise_kernels(isa), static_cast<unsigned>(n), n) ==
            results(elementwise_kernels(Isa::kPortable), static_cast<unsigned>(n), n));
    }
  }
}

TEST_CASE("elementwise kernels compute their formulas") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  constexpr int kCount = 576;
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  for (float& value : x) value = normal(random);
  for (float& value : y) value = normal(random);
  std::vector<Bf16> out(kCount);
  const ElementwiseKernels& kernels = elementwise_kernels(supported_paths().back());
  double mean = 0;
  for (const float value : x) mean += static_cast<double>(value) * static_cast<double>(value) / kCount;
  kernels.rms_norm(x.data(), y.data(), kCount, 1e-5F, out.data());
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = static_cast<double>(x[i]) * static_cast<double>(y[i]) / std::sqrt(mean + 1e-5);
    CHECK(std::fabs(static_cast<double>(bf16_to_float(out[i])) - expected) <= std::fabs(expected) * 0.00392);
  }
  kernels.swiglu(x.data(), y.data(), kCount, out.data());
  for (std::size_t i = 0; i < kCount; ++i) {
    const double gate = static_cast<double>(x[i]);
    const double expected = gate / (1 + std::exp(-gate)) * static_cast<double>(y[i]);
    CHECK(std::fabs(static_cast<double>(bf16_to_float(out[i])) - expected) <= std::fabs(expected) * 0.00392);
  }
}

TEST_CASE("swiglu stays defined at the ends of FP32") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float gates[] = {-infinity, -3e38F, -1000.0F, 1000.0F};
  const float ups[] = {1.0F, 1.0F, 1.0F, 1.0F};
  Bf16 out[4];
  for (const Isa isa : supported_paths()) {
    elementwise_kernels(isa).swiglu(gates, ups, 4, out);
    CHECK(std::isnan(bf16_to_float(out[0])));  // −∞ / ∞, as in IEEE arithmetic.
    CHECK(bf16_to_float(out[1]) == 0.0F);
    CHECK(bf16_to_float(out[2]) == 0.0F);
    CHECK(bf16_to_float(out[3]) == 1000.0F);
  }
}

}  // namespace
}  // namespace lynx::model
