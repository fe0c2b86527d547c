#pragma once

// The two halves of drawing a token from weights: cutting the tail of the distribution, and Gumbel-max over what is left. Internal
// to the sampler.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sampler.h"

namespace lynx::model {

/// Where a sorted distribution is cut: tokens that come after `token` in the order (scaled logit descending, id ascending) are out.
struct Cut {
  float scaled_logit;
  std::int32_t token;
};

/// Tokens whose scaled logit lies deeper than this below the best one have no mass in units of 2^-30 and cannot win against any
/// noise of 32 bits: they are out from the start.
inline constexpr float kDeepest = 32.0F;

using Candidate = std::pair<float, std::int32_t>;  ///< (scaled logit, token)

/// The top_k first tokens. `scaled` [vocabulary] is ≤ 0: 0 for the best token, −infinity for masked ones. `candidates` is working
/// memory.
Cut cut_top_k(std::span<const float> scaled, int top_k, std::vector<Candidate>& candidates);

/// The fewest first tokens whose mass reaches top_p of the whole. `weights` holds e^scaled, 0 for tokens that are already out.
Cut cut_top_p(std::span<const float> scaled, std::span<const float> weights, float top_p, std::vector<Candidate>& candidates);

/// argmax of scaled + noise over the tokens with a weight above zero; there is one. A token's noise is −ln(−ln u),
/// u = (word + 1/2) / 2^32, with the word that LogitKernels::random_words gives it.
std::int32_t draw(std::span<const float> scaled, std::span<const float> weights, SampleKey key);

}  // namespace lynx::model
