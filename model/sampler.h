#pragma once

// Choosing a token: a pure function of (logits, parameters, prompt, generated prefix, seed, choice, position). No state is carried
// from token to token, so preemption, speculation and rollback cannot change the text. Noise is counter-based (Gumbel-max over
// Philox4x32-10, Salmon et al. 2011): the same (seed, choice, position, token) gives the same noise in a draft and in its
// verification. Neither libm nor the order of any floating-point sum takes part, so the choice is the same on every processor.
//
// Order of the transformations (that of vLLM):
//  1. repetition penalty r, for each distinct token of prompt and generated: z > 0 ? z / r : z · r;
//     then frequency and presence penalties, for each distinct generated token: z − count · frequency − presence;
//  2. logit_bias is added; a result beyond FP32 becomes the largest finite value;
//  3. end tokens are masked while fewer than min_tokens are generated;
//  4. temperature below kGreedyTemperature: the largest z wins. Else y = (z − max z) · (1 / temperature), w = e^y;
//  5. top_k: the k largest y stay;
//  6. top_p: of those the fewest, largest first, whose mass reaches top_p of the whole. Mass is counted in whole units of 2^-30 of
//     the likeliest token's weight, so that its sum does not depend on an order;
//  7. min_p: those with w ≥ min_p stay (the largest w is 1);
//  8. the largest y + Gumbel noise wins.
// Ties go to the lower id everywhere. Non-finite logits count as masked. If nothing is left, the lowest id not masked in step 3 is
// chosen.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sampling_params.h"

namespace lynx::model {

/// Temperatures below this are greedy.
inline constexpr float kGreedyTemperature = 1e-5F;

struct SampleKey {
  std::uint64_t seed;
  std::uint32_t choice;    ///< Index of the choice (n > 1).
  std::uint32_t position;  ///< Generated tokens before this one.
};

/// What the function may look at beside the logits; nothing is owned. Ids are inside the vocabulary.
struct SampleContext {
  std::span<const std::int32_t> prompt;
  std::span<const std::int32_t> generated;
  std::span<const std::int32_t> end_tokens;  ///< Masked while generated.size() < min_tokens. In any order; repeats only cost time.
};

/// Reusable working memory, so that the token path allocates nothing. One per thread. Its contents carry no meaning between calls.
struct SampleScratch {
  std::vector<float> logits;
  std::vector<float> weights;
  std::vector<std::int32_t> counts;  ///< By token; all zero between calls.
  std::vector<std::pair<float, std::int32_t>> candidates;
};

/// The chosen token id. `logits` [vocabulary] is left as it is. Cost: a few passes over the vocabulary; penalties and end tokens
/// cost as many steps as there are tokens to look at.
std::int32_t sample(std::span<const float> logits, const SamplingParams& params, const SampleContext& context, SampleKey key,
                    SampleScratch& scratch);

struct TokenLogprob {
  std::int32_t token;
  float logprob;  ///< log softmax of the model's own logits, before penalties and temperature; finite (clamped at −9999).
};

/// The log probability of `token`, followed in `top` by the `top_count` most likely tokens, best first (ties: lower id). Non-finite
/// logits weigh nothing. `top` is replaced; nullptr when top_count is 0.
TokenLogprob token_logprob(std::span<const float> logits, std::int32_t token, int top_count, std::vector<TokenLogprob>* top);

}  // namespace lynx::model
