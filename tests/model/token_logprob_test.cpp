#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/sampler.h"
#include "tests/catch.h"

namespace lynx::model {
namespace {

/// log softmax in double; non-finite logits weigh nothing.
std::vector<double> oracle_logprobs(const std::vector<float>& logits) {
  double highest = -INFINITY;
  for (const float logit : logits) highest = std::isfinite(logit) ? std::max(highest, static_cast<double>(logit)) : highest;
  double sum = 0;
  for (const float logit : logits) sum += std::isfinite(logit) ? std::exp(static_cast<double>(logit) - highest) : 0.0;
  std::vector<double> result;
  for (const float logit : logits) {
    const double value = static_cast<double>(logit) - highest - std::log(sum);
    result.push_back(std::isfinite(logit) ? std::max(value, -9999.0) : -9999.0);
  }
  return result;
}

TEST_CASE("log probabilities equal a double oracle") {
  const unsigned seed = 4;
  std::mt19937 random(seed);
  for (int number = 0; number < 200; ++number) {
    std::normal_distribution<float> normal(0, number % 2 == 0 ? 1.0F : 15.0F);
    std::vector<float> logits(1 + random() % 3000);
    for (float& logit : logits) logit = normal(random);
    if (number % 5 == 0) {  // Ties, and values that weigh nothing.
      for (float& logit : logits) logit = std::round(logit);
      logits[random() % logits.size()] = std::numeric_limits<float>::quiet_NaN();
      logits[random() % logits.size()] = std::numeric_limits<float>::infinity();
      logits[random() % logits.size()] = -1e30F;
    }
    const auto expected = oracle_logprobs(logits);
    const auto token = static_cast<std::int32_t>(random() % logits.size());
    const int top_count = static_cast<int>(random() % 21);
    std::vector<TokenLogprob> top;
    const TokenLogprob own = token_logprob(logits, token, top_count, &top);
    INFO("seed " << seed << ", case " << number << ", token " << token);
    CHECK(own.token == token);
    CHECK(own.logprob == Approx(expected[static_cast<std::size_t>(token)]).margin(2e-6).epsilon(1e-6));

    std::vector<std::int32_t> order(logits.size());
    for (std::size_t id = 0; id < order.size(); ++id) order[id] = static_cast<std::int32_t>(id);
    const auto rank = [&](std::int32_t id) {
      const float logit = logits[static_cast<std::size_t>(id)];
      return std::isfinite(logit) ? logit : -INFINITY;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return rank(a) > rank(b); });
    REQUIRE(top.size() == std::min(static_cast<std::size_t>(top_count), logits.size()));
    for (std::size_t i = 0; i < top.size(); ++i) {
      CHECK(top[i].token == order[i]);
      CHECK(top[i].logprob == token_logprob(logits, order[i], 0, nullptr).logprob);
    }
  }
}

TEST_CASE("log probabilities are finite whatever the logits") {
  std::vector<float> logits(40, std::numeric_limits<float>::quiet_NaN());
  std::vector<TokenLogprob> top;
  CHECK(token_logprob(logits, 3, 2, &top).logprob == -9999.0F);
  REQUIRE(top.size() == 2);
  CHECK(top[0].token == 0);
  CHECK(top[0].logprob == -9999.0F);
  logits[5] = 3e38F;
  logits[6] = -3e38F;
  CHECK(token_logprob(logits, 5, 0, nullptr).logprob == 0.0F);
  CHECK(token_logprob(logits, 6, 0, nullptr).logprob == -9999.0F);
}

}  // namespace
}  // namespace lynx::model
