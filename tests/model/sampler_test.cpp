#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/catch.h"
#include "tests/model/sampler_oracle.h"

namespace lynx::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::mt19937& random, int vocabulary, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<std::int32_t> random_tokens(std::mt19937& random, int count, int vocabulary) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary));
  return tokens;
}

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

SamplingParams random_params(std::mt19937& random, int vocabulary) {
  SamplingParams params;
  params.temperature = pick(random, {0.0F, 0.3F, 0.7F, 1.0F, 1.5F, 2.0F});
  params.top_k = pick(random, {0, 0, 1, 2, 40, 700, vocabulary, vocabulary + 5});
  params.top_p = pick(random, {1.0F, 1.0F, 0.95F, 0.9F, 0.5F, 0.01F});
  params.min_p = pick(random, {0.0F, 0.0F, 0.05F, 0.3F});
  params.repetition_penalty = pick(random, {1.0F, 1.0F, 1.3F, 0.8F});
  params.frequency_penalty = pick(random, {0.0F, 0.0F, 0.5F, -1.0F});
  params.presence_penalty = pick(random, {0.0F, 0.0F, 0.7F, -0.4F});
  for (unsigned i = random() % 4; i > 0; --i) {
    params.logit_bias.emplace_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary)),
                                   pick(random, {-100.0F, 3.0F, 8.0F}));
  }
  params.min_tokens = pick(random, {0, 0, 5});
  return params;
}

TEST_CASE("sampling equals the definition written out slowly") {
  const unsigned seed = 20240;
  std::mt19937 random(seed);
  SampleScratch scratch;
  int ambiguous = 0;
  constexpr int kCases = 3000;
  for (int number = 0; number < kCases; ++number) {
    const int vocabulary = pick(random, {1, 3, 17, 100, 1001, 2500});
    const auto logits = random_logits(random, vocabulary, pick(random, {0.0F, 0.5F, 3.0F, 12.0F}));
    const auto prompt = random_tokens(random, static_cast<int>(random() % 50), vocabulary);
    const auto generated = random_tokens(random, static_cast<int>(random() % 20), vocabulary);
    const auto ends = random_tokens(random, vocabulary > 3 ? static_cast<int>(random() % 3) : 0, vocabulary);
    const SamplingParams params = random_params(random, vocabulary);
    const SampleContext context{prompt, generated, ends};
    const SampleKey key{(std::uint64_t{random()} << 32) | random(), static_cast<std::uint32_t>(number % 4),
                        static_cast<std::uint32_t>(generated.size())};
    const std::int32_t token = sample(logits, params, context, key, scratch);
    const oracle::Choice expected = oracle::sample(logits, params, context, key);
    ambiguous += expected.ambiguous ? 1 : 0;
    INFO("seed " << seed << ", case " << number << ", vocabulary " << vocabulary << ", temperature " << params.temperature
                 << ", top_k " << params.top_k << ", top_p " << params.top_p << ", min_p " << params.min_p);
    CHECK((token == expected.token || expected.ambiguous));
  }
  CHECK(ambiguous < kCases / 20);
}

/// χ² of `draws` samples against probabilities p, cells of little mass pooled; returns how many standard deviations it lies above
/// its mean.
double chi_square_excess(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
  double statistic = 0;
  double pooled_p = 0;
  int pooled = 0;
  int cells = 0;
  const auto add = [&](int count, double probability) {
    const double expected = probability * draws;
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t id = 0; id < p.size(); ++id) {
    if (p[id] == 0) REQUIRE(counts[id] == 0);
    if (p[id] * draws >= 10) {
      add(counts[id], p[id]);
    } else {
      pooled += counts[id];
      pooled_p += p[id];
    }
  }
  if (pooled_p * draws >= 1) add(pooled, pooled_p);
  return (statistic - (cells - 1)) / std::sqrt(2.0 * (cells - 1));
}

TEST_CASE("samples are distributed as the parameters say") {
  std::mt19937 random(7);
  const auto logits = random_logits(random, 300, 2.0F);
  struct Case {
    float temperature;
    int top_k;
    float top_p;
    float min_p;
  };
  for (const Case& c :
       {Case{1, 0, 1, 0}, Case{0.6F, 0, 1, 0}, Case{2, 0, 1, 0}, Case{1, 20, 1, 0}, Case{1, 0, 0.8F, 0}, Case{1, 0, 1, 0.1F}}) {
    SamplingParams params;
    params.temperature = c.temperature;
    params.top_k = c.top_k;
    params.top_p = c.top_p;
    params.min_p = c.min_p;
    bool ambiguous = false;
    const auto kept = oracle::kept(logits, params, &ambiguous);
    double total = 0;
    for (const auto& entry : kept) total += std::exp(entry.scaled);
    std::vector<double> p(logits.size(), 0.0);
    for (const auto& entry : kept) p[static_cast<std::size_t>(entry.token)] = std::exp(entry.scaled) / total;
    constexpr int kDraws = 40000;
    SampleScratch scratch;
    // Over positions, over seeds and over choices: each must behave as independent noise.
    for (int axis = 0; axis < 3; ++axis) {
      std::vector<int> counts(logits.size(), 0);
      for (std::uint32_t i = 0; i < kDraws; ++i) {
        const SampleKey key{axis == 0 ? i : 5U, axis == 1 ? i : 0U, axis == 2 ? i : 9U};
        ++counts[static_cast<std::size_t>(sample(logits, params, {}, key, scratch))];
      }
      INFO("temperature " << c.temperature << ", top_k " << c.top_k << ", top_p " << c.top_p << ", min_p " << c.min_p << ", axis "
                          << axis);
      CHECK(std::fabs(chi_square_excess(counts, p, kDraws)) < 4.0);
    }
  }
}

TEST_CASE("non-finite logits lose to all finite ones") {
  SampleScratch scratch;
  SamplingParams params;
  for (const float temperature : {0.0F, 1.0F}) {
    params.temperature = temperature;
    std::vector<float> logits(100, kNaN);
    logits[3] = kInfinity;
    logits[4] = -kInfinity;
    logits[70] = -3e38F;
    CHECK(sample(logits, params, {}, {1, 0, 0}, scratch) == 70);
    logits[70] = kNaN;
    CHECK(sample(logits, params, {}, {1, 0, 0}, scratch) == 0);
    const std::vector<std::int32_t> ends = {0, 1};
    params.min_tokens = 1;
    CHECK(sample(logits, params, {{}, {}, ends}, {1, 0, 0}, scratch) == 2);
    params.min_tokens = 0;
  }
}

TEST_CASE("extreme parameters keep finite logits finite") {
  SampleScratch scratch;
  std::vector<float> logits = {3e38F, 1.0F, -3e38F, kNaN};
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 1e-30F;
  const std::vector<std::int32_t> generated = {0, 3};
  CHECK(sample(logits, params, {{}, generated, {}}, {1, 0, 0}, scratch) == 0);
  params.repetition_penalty = 1;
  params.logit_bias = {{3, 100.0F}};
  params.temperature = 1.01e-5F;
  CHECK(sample(logits, params, {}, {1, 0, 0}, scratch) == 0);
}

TEST_CASE("ties go to the lower id") {
  SampleScratch scratch;
  SamplingParams params;
  params.temperature = 0;
  std::vector<float> logits(1000, 1.0F);
  CHECK(sample(logits, params, {}, {1, 0, 0}, scratch) == 0);
  params.temperature = 1;
  params.top_k = 3;
  std::vector<int> counts(1000, 0);
  for (std::uint32_t position = 0; position < 300; ++position) {
    ++counts[static_cast<std::size_t>(sample(logits, params, {}, {1, 0, position}, scratch))];
  }
  CHECK(counts[0] + counts[1] + counts[2] == 300);
  CHECK(*std::min_element(counts.begin(), counts.begin() + 3) > 50);
}

TEST_CASE("sampling is a pure function") {
  const unsigned seed = 99;
  std::mt19937 random(seed);
  SampleScratch used;
  for (int number = 0; number < 300; ++number) {
    const int vocabulary = pick(random, {50, 999, 1200});
    const auto logits = random_logits(random, vocabulary, 4.0F);
    auto prompt = random_tokens(random, 30, vocabulary);
    auto generated = random_tokens(random, 10, vocabulary);
    const SamplingParams params = random_params(random, vocabulary);
    const SampleKey key{random(), 0, 10};
    const std::int32_t token = sample(logits, params, {prompt, generated, {}}, key, used);
    SampleScratch fresh;
    std::shuffle(prompt.begin(), prompt.end(), random);  // Penalties look at which tokens there are, not at their order.
    std::shuffle(generated.begin(), generated.end(), random);
    INFO("seed " << seed << ", case " << number);
    CHECK(sample(logits, params, {prompt, generated, {}}, key, fresh) == token);
    SamplingParams one = params;
    one.top_k = 1;
    SamplingParams greedy = params;
    greedy.temperature = 0;
    CHECK(sample(logits, one, {prompt, generated, {}}, key, used) == sample(logits, greedy, {prompt, generated, {}}, key, fresh));
  }
}

TEST_CASE("end tokens wait for min_tokens") {
  SampleScratch scratch;
  std::vector<float> logits(64, 0.0F);
  logits[7] = 50.0F;
  const std::vector<std::int32_t> ends = {7};
  SamplingParams params;
  params.min_tokens = 3;
  for (const float temperature : {0.0F, 1.0F}) {
    params.temperature = temperature;
    for (std::size_t length = 0; length < 6; ++length) {
      const std::vector<std::int32_t> generated(length, 1);
      const std::int32_t token = sample(logits, params, {{}, generated, ends}, {1, 0, static_cast<std::uint32_t>(length)}, scratch);
      CHECK((token == 7) == (length >= 3));
    }
  }
}

TEST_CASE("without a finite logit the lowest id that is no end token wins, however many end tokens there are") {
  SampleScratch scratch;
  SamplingParams params;
  params.min_tokens = 1;
  // A search of all end tokens for each id would not end in minutes here.
  constexpr std::int32_t kVocabulary = 1 << 20;
  const std::vector<float> logits(kVocabulary, -kInfinity);
  std::vector<std::int32_t> ends;
  for (std::int32_t token = kVocabulary - 2; token >= 0; --token) ends.insert(ends.end(), 2, token);
  CHECK(sample(logits, params, {{}, {}, ends}, {1, 0, 0}, scratch) == kVocabulary - 1);
  ends.push_back(kVocabulary - 1);
  CHECK(sample(logits, params, {{}, {}, ends}, {1, 0, 0}, scratch) == 0);
  const std::vector<std::int32_t> few = {2, 0, 1, 0};
  CHECK(sample(logits, params, {{}, {}, few}, {1, 0, 0}, scratch) == 3);
  CHECK(std::count(scratch.counts.begin(), scratch.counts.end(), 0) == kVocabulary);
}

}  // namespace
}  // namespace lynx::model
