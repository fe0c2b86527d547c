#pragma once

// The sampler's definition (model/sampler.h) written out the slow way: every token, a full sort, double arithmetic and libm.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "model/philox.h"
#include "model/sampler.h"

namespace lynx::model::oracle {

struct Choice {
  std::int32_t token = 0;
  /// Another rounding could have decided otherwise: a nucleus boundary, min_p or the race was closer than FP32 resolves.
  bool ambiguous = false;
};

inline std::vector<float> shaped(std::span<const float> logits, const SamplingParams& params, const SampleContext& context) {
  std::vector<float> z(logits.begin(), logits.end());
  std::map<std::int32_t, int> counts;
  for (const std::int32_t token : context.generated) ++counts[token];
  std::set<std::int32_t> seen(context.prompt.begin(), context.prompt.end());
  seen.insert(context.generated.begin(), context.generated.end());
  for (const std::int32_t token : seen) {
    float& value = z[static_cast<std::size_t>(token)];
    value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
  }
  for (const auto& [token, count] : counts) {
    float& value = z[static_cast<std::size_t>(token)];
    value = value - static_cast<float>(count) * params.frequency_penalty - params.presence_penalty;
  }
  for (const auto& [token, bias] : params.logit_bias) z[static_cast<std::size_t>(token)] += bias;
  if (context.generated.size() < static_cast<std::size_t>(params.min_tokens)) {
    for (const std::int32_t token : context.end_tokens) z[static_cast<std::size_t>(token)] = -INFINITY;
  }
  return z;
}

struct Ranked {
  double scaled;
  std::int32_t token;
};

/// Steps 5 to 7: what stays, best first.
inline std::vector<Ranked> kept(const std::vector<float>& z, const SamplingParams& params, bool* ambiguous) {
  std::vector<Ranked> ranked;
  for (std::size_t id = 0; id < z.size(); ++id) {
    if (std::isfinite(z[id])) ranked.push_back({z[id], static_cast<std::int32_t>(id)});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.scaled > b.scaled; });
  const double best = ranked.front().scaled;
  for (Ranked& entry : ranked) entry.scaled = (entry.scaled - best) / static_cast<double>(params.temperature);
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < ranked.size())
    ranked.resize(static_cast<std::size_t>(params.top_k));
  double total = 0;
  for (const Ranked& entry : ranked) total += std::exp(entry.scaled);
  double passed = 0;
  std::size_t count = 0;
  while (count < ranked.size() && (count == 0 || passed < static_cast<double>(params.top_p) * total || params.top_p >= 1.0F)) {
    passed += std::exp(ranked[count++].scaled);
    if (params.top_p < 1.0F && std::fabs(passed / total - static_cast<double>(params.top_p)) < 1e-4) *ambiguous = true;
  }
  ranked.resize(count);
  std::erase_if(ranked, [&](const Ranked& entry) {
    const double weight = std::exp(entry.scaled);
    if (std::fabs(weight / static_cast<double>(params.min_p) - 1.0) < 1e-4) *ambiguous = true;
    return weight < static_cast<double>(params.min_p);
  });
  return ranked;
}

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  std::uint32_t words[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  philox4x32_10<1>(words, key);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

inline double noise(SampleKey key, std::int32_t token) {
  const auto id = static_cast<std::uint32_t>(token);
  const auto words = philox({id / 64 * 16 + id % 16, key.position, key.choice, 0}, key.seed);
  return -std::log(-std::log((static_cast<double>(words[id / 16 % 4]) + 0.5) / 4294967296.0));
}

inline Choice sample(std::span<const float> logits, const SamplingParams& params, const SampleContext& context, SampleKey key) {
  const std::vector<float> z = shaped(logits, params, context);
  Choice choice;
  if (params.temperature == 0.0F) {
    for (std::size_t id = 1; id < z.size(); ++id) {
      if (z[id] > z[static_cast<std::size_t>(choice.token)]) choice.token = static_cast<std::int32_t>(id);
    }
    return choice;
  }
  double best = -INFINITY;
  double second = -INFINITY;
  for (const Ranked& entry : kept(z, params, &choice.ambiguous)) {
    const double score = entry.scaled + noise(key, entry.token);
    second = std::max(second, std::min(score, best));
    if (score > best) {
      best = score;
      choice.token = entry.token;
    }
  }
  if (best - second < 1e-4) choice.ambiguous = true;
  return choice;
}

}  // namespace lynx::model::oracle
