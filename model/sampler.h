#pragma once

// Choosing a token: a pure function of (logits, parameters, prompt, generated prefix, seed, choice, position). No state is carried
// from token to token, so preemption, speculation and rollback cannot change the text. Noise is counter-based (Gumbel-max over
// Philox4x32-10, Salmon et al. 2011): the same (seed, choice, position, token) gives the same noise in a draft and in its
// verification.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sampling_params.h"

namespace lynx::model {

struct SampleKey {
  std::uint64_t seed;
  std::uint32_t choice;    ///< Index of the choice (n > 1).
  std::uint32_t position;  ///< Generated tokens before this one.
};

/// What the function may look at beside the logits; nothing is owned.
struct SampleContext {
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> generated;
  std::span<const std::int32_t> end_tokens;  ///< Masked while generated.size() < min_tokens.
};

/// Reusable working memory, so that the token path allocates nothing. One per thread.
struct SampleScratch {
  std::vector<float> logits;
  std::vector<std::pair<float, std::int32_t>> candidates;
};

/// The chosen token id. `logits` [vocabulary] is left as it is. Ties go to the lower id. Non-finite logits lose to all finite ones.
std::int32_t sample(std::span<const float> logits, const SamplingParams& params, const SampleContext& context, SampleKey key,
                    SampleScratch& scratch);

struct TokenLogprob {
  std::int32_t token;
  float logprob;  ///< log softmax of the model's own logits, before penalties and temperature; finite (clamped at −9999).
};

/// The log probability of `token`, followed in `top` by the `top_count` most likely tokens, best first (ties: lower id).
TokenLogprob token_logprob(std::span<const float> logits, std::int32_t token, int top_count, std::vector<TokenLogprob>* top);

}  // namespace lynx::model
