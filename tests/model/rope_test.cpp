#include "model/rope.h"

#include <cmath>

#include "tests/catch.h"

namespace lynx::model {
namespace {

struct Expected {
  std::size_t pair;
  float frequency;
};

void check(const ModelConfig& config, std::initializer_list<Expected> expected) {
  const auto frequencies = rope_frequencies(config);
  REQUIRE(frequencies.size() == static_cast<std::size_t>(config.head_dim / 2));
  for (const Expected& entry : expected) {
    INFO("pair " << entry.pair);
    CHECK(std::fabs(frequencies[entry.pair] / entry.frequency - 1.0F) < 3e-7F);
  }
}

ModelConfig config_of(int head_dim, float theta, RopeScaling::Type type, float factor) {
  ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  config.rope_scaling.type = type;
  config.rope_scaling.factor = factor;
  return config;
}

// Expected values: LlamaRotaryEmbedding of transformers 5.
TEST_CASE("frequencies equal those of transformers") {
  check(config_of(64, 100000.0F, RopeScaling::Type::kNone, 1),
        {{0, 1.0F}, {3, 0.339820832F}, {9, 0.0392418988F}, {15, 0.00453158375F}, {21, 0.000523299095F}, {30, 2.05352499e-05F}});
  check(config_of(128, 500000.0F, RopeScaling::Type::kLlama3, 8),
        {{0, 1.0F}, {6, 0.292227834F}, {24, 0.00729266508F}, {30, 0.00137189368F}, {36, 7.78465546e-05F}, {60, 5.6770881e-07F}});
  check(config_of(64, 500000.0F, RopeScaling::Type::kLlama3, 32),
        {{0, 1.0F}, {12, 0.00729266508F}, {15, 0.00129054801F}, {18, 1.94616387e-05F}, {30, 1.41927202e-07F}});
  check(config_of(128, 10000.0F, RopeScaling::Type::kLinear, 4),
        {{0, 0.25F}, {6, 0.105424128F}, {30, 0.00333380373F}, {60, 4.44569851e-05F}});
}

TEST_CASE("explicit factors divide the frequencies") {
  ModelConfig config = config_of(8, 10000.0F, RopeScaling::Type::kNone, 1);
  const auto plain = rope_frequencies(config);
  config.rope_scaling.factors = {1.0F, 2.0F, 4.0F, 8.0F};
  const auto divided = rope_frequencies(config);
  for (std::size_t pair = 0; pair < 4; ++pair) CHECK(divided[pair] == plain[pair] / config.rope_scaling.factors[pair]);
}

TEST_CASE("sines and cosines are those of the FP32 angle") {
  const auto frequencies = rope_frequencies(config_of(128, 500000.0F, RopeScaling::Type::kLlama3, 8));
  std::vector<float> cosine(64);
  std::vector<float> sine(64);
  for (const int position : {0, 1, 63, 511, 512, 4097, 8191, 131071, 1000000}) {
    rope_row(frequencies, position, cosine.data(), sine.data());
    for (std::size_t pair = 0; pair < 64; ++pair) {
      const float angle = static_cast<float>(position) * frequencies[pair];
      INFO("position " << position << ", pair " << pair);
      CHECK(cosine[pair] == Approx(std::cos(static_cast<double>(angle))).margin(1e-7).epsilon(1e-7));
      CHECK(sine[pair] == Approx(std::sin(static_cast<double>(angle))).margin(1e-7).epsilon(1e-7));
    }
  }
}

}  // namespace
}  // namespace lynx::model
