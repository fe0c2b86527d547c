#include <algorithm>

#include "model/double_math.h"
#include "model/logit_scan.h"
#include "model/sampler.h"

namespace lynx::model {

namespace {

constexpr float kLowestLogprob = -9999.0F;  ///< JSON has no infinity.

/// Keeps `top` sorted, best first. Ids come ascending, so that a tie stays behind.
void insert_candidate(TokenLogprob candidate, std::size_t top_count, std::vector<TokenLogprob>* top) {
  if (top->size() == top_count) top->pop_back();
  const auto better = [](const TokenLogprob& a, const TokenLogprob& b) { return a.logprob > b.logprob; };
  top->insert(std::upper_bound(top->begin(), top->end(), candidate, better), candidate);
}

/// The `top_count` largest logits, as logits.
void find_top(std::span<const float> logits, std::size_t top_count, std::vector<TokenLogprob>* top) {
  top->clear();
  if (top_count == 0) return;
  top->reserve(top_count);
  float bound = 0;  // The worst one kept, once there are enough.
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (top->size() == top_count && !(logits[id] > bound)) continue;  // Also skips NaN.
    const float value = is_finite(logits[id]) ? logits[id] : kMasked;
    if (top->size() == top_count && !(value > bound)) continue;
    insert_candidate({static_cast<std::int32_t>(id), value}, top_count, top);
    bound = top->back().logprob;
  }
}

}  // namespace

TokenLogprob token_logprob(std::span<const float> logits, std::int32_t token, int top_count, std::vector<TokenLogprob>* top) {
  const Best best = find_best(logits);
  const bool any = best.value != kMasked;
  const double log_sum = any ? log_f64(sum_of_exponentials(logits, best.value)) : 0.0;
  const auto logprob = [&](float logit) {
    if (!any || !is_finite(logit)) return kLowestLogprob;
    const double value = (static_cast<double>(logit) - static_cast<double>(best.value)) - log_sum;
    return std::max(kLowestLogprob, static_cast<float>(value));
  };
  if (top != nullptr) {
    find_top(logits, std::min(static_cast<std::size_t>(std::max(top_count, 0)), logits.size()), top);
    for (TokenLogprob& entry : *top) entry.logprob = logprob(entry.logprob);
  }
  return {token, logprob(logits[static_cast<std::size_t>(token)])};
}

}  // namespace lynx::model
