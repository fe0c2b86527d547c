// The vector forms of the passes over logits: the same bits as the portable one, which is held against plain loops.

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "device/isa.h"
#include "model/logit_scan.h"
#include "tests/catch.h"

namespace lynx::model {
namespace {

struct Form {
  const char* name;
  Isa isa;
  const LogitKernels& kernels;
};

std::vector<Form> supported_forms() {
  std::vector<Form> forms;
  for (const Form& form :
       {Form{"portable", Isa::kPortable, logit_kernels_portable()}, Form{"avx2", Isa::kAvx2, logit_kernels_avx2()},
        Form{"avx512", Isa::kAvx512Bf16, logit_kernels_avx512()}}) {
    if (isa_supported(form.isa)) forms.push_back(form);
  }
  return forms;
}

std::vector<float> random_logits(std::mt19937& random, int count) {
  std::normal_distribution<float> normal(0, 6);
  std::vector<float> logits(static_cast<std::size_t>(count));
  for (float& logit : logits) {
    logit = normal(random);
    const float infinity = std::numeric_limits<float>::infinity();
    const float specials[] = {infinity, -infinity, std::nanf(""), 3e38F, -3e38F, std::round(logit)};
    if (random() % 20 == 0) logit = specials[random() % 6];
  }
  return logits;
}

struct Results {
  float maximum;
  float sum;
  std::vector<float> scaled;
  std::vector<float> weights;
  int above;
  std::uint64_t mass;
  std::vector<std::uint32_t> words;
};

Results run(const LogitKernels& kernels, const std::vector<float>& logits, std::uint32_t seed) {
  const int count = static_cast<int>(logits.size());
  Results results{};
  results.maximum = kernels.maximum(logits.data(), count);
  results.sum = kernels.sum_exponentials(logits.data(), count, 20.0F);
  results.scaled.resize(logits.size());
  results.weights.resize(logits.size());
  kernels.weigh(logits.data(), count, 20.0F, 0.7F, 32.0F, results.scaled.data(), results.weights.data());
  for (float& weight : results.weights) weight = std::min(weight, 1.0F);
  results.above = kernels.count_above(results.scaled.data(), count, -14.0F);
  results.mass = kernels.mass_above(results.scaled.data(), results.weights.data(), count, -14.0F);
  kernels.drop_after(results.scaled.data(), count, results.scaled[logits.size() / 2], count / 2, results.weights.data());
  results.words.resize(kNoiseGroup);
  kernels.random_words(seed, 2, 3, 0x123456789abcdefULL * seed, results.words.data());
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("passes over logits give the same bits in every form") {
  std::mt19937 random(8);
  for (int number = 0; number < 400; ++number) {
    const int count = number < 100 ? number + 1 : 1 + static_cast<int>(random() % 40000);
    const auto logits = random_logits(random, count);
    const auto seed = static_cast<std::uint32_t>(number);
    const Results expected = run(logit_kernels_portable(), logits, seed);
    for (const Form& form : supported_forms()) {
      const Results results = run(form.kernels, logits, seed);
      INFO(form.name << ", case " << number << ", count " << count);
      CHECK(results.maximum == expected.maximum);
      CHECK(results.sum == expected.sum);
      CHECK(same_bits(results.scaled, expected.scaled));
      CHECK(same_bits(results.weights, expected.weights));
      CHECK(results.above == expected.above);
      CHECK(results.mass == expected.mass);
      CHECK(results.words == expected.words);
    }
  }
}

TEST_CASE("passes over logits compute what they say") {
  std::mt19937 random(9);
  auto logits = random_logits(random, 5000);
  for (float& logit : logits) logit = logit > 20.0F && std::isfinite(logit) ? 20.0F : logit;
  const Results results = run(logit_kernels_portable(), logits, 1);
  float maximum = -std::numeric_limits<float>::infinity();
  double sum = 0;
  int above = 0;
  double mass = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) continue;
    maximum = std::max(maximum, logit);
    sum += std::exp(static_cast<double>(logit) - 20.0);
    const double scaled = (static_cast<double>(logit) - 20.0) * 0.7;
    above += scaled >= -14.0 ? 1 : 0;
    mass += scaled >= -14.0 ? std::exp(scaled) : 0.0;
  }
  CHECK(results.maximum == maximum);
  CHECK(static_cast<double>(results.sum) == Approx(sum).epsilon(1e-5));
  CHECK(results.above == Approx(above).margin(1));
  CHECK(static_cast<double>(results.mass) / 1073741824.0 == Approx(mass).epsilon(1e-6));
}

}  // namespace
}  // namespace lynx::model
