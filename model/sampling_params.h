#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lynx::model {

/// How one token is chosen. Defaults are OpenAI's; every field is already validated (server/ does that, naming the field).
struct SamplingParams {
  float temperature = 1.0F;                                ///< 0 = greedy; else 0 … 2.
  int top_k = 0;                                           ///< 0 = off.
  float top_p = 1.0F;                                      ///< (0, 1].
  float min_p = 0.0F;                                      ///< [0, 1].
  float repetition_penalty = 1.0F;                         ///< > 0; over prompt and generated tokens.
  float frequency_penalty = 0.0F;                          ///< −2 … 2; over generated tokens.
  float presence_penalty = 0.0F;                           ///< −2 … 2; over generated tokens.
  std::vector<std::pair<std::int32_t, float>> logit_bias;  ///< (token id, ±100), ids inside the vocabulary.
  int min_tokens = 0;                                      ///< Until then the end tokens cannot be chosen.
  std::optional<std::uint64_t> seed;                       ///< Drawn before the request is queued when absent.
};

}  // namespace lynx::model
