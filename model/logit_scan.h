#pragma once

// Passes over a vocabulary of logits, shared by sampling and log probabilities.

#include <cstdint>
#include <limits>
#include <span>

#include "device/portability.h"

namespace lynx::model {

inline constexpr float kLargestLogit = std::numeric_limits<float>::max();
inline constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Tokens whose noise is made together: 16 Philox blocks of 4 words.
inline constexpr int kNoiseGroup = 64;

/// The passes as vector code. Floating-point sums have a fixed order and everything else is exact or rounded value by value, so all
/// forms give the same bits; they differ in speed only.
struct LogitKernels {
  /// The largest finite value; kMasked if there is none.
  float (*maximum)(const float* values, int count);

  /// Σ e^(value − highest) over the finite values, in 16 interleaved chains.
  float (*sum_exponentials)(const float* values, int count, float highest);

  /// scaled = (logit − highest) · factor, kMasked for a logit that is not finite; weights = e^scaled, 0 where scaled < −deepest.
  void (*weigh)(const float* logits, int count, float highest, float factor, float deepest, float* scaled, float* weights);

  /// How many values are at least `bound`.
  int (*count_above)(const float* values, int count, float bound);

  /// Σ of the weights (0 … 1), each truncated to whole units of 2^-30, whose scaled value is at least `bound`.
  std::uint64_t (*mass_above)(const float* scaled, const float* weights, int count, float bound);

  /// Zeroes the weights of the tokens after (last_scaled, last_token) in the order: scaled descending, token ascending.
  void (*drop_after)(const float* scaled, int count, float last_scaled, std::int32_t last_token, float* weights);

  /// The random words of tokens 64 · group … 64 · group + 63: word i of the group is number i / 16 of the Philox4x32-10 block of
  /// counter (16 · group + i mod 16, position, choice, 0) and key `seed`.
  void (*random_words)(std::uint32_t group, std::uint32_t position, std::uint32_t choice, std::uint64_t seed, std::uint32_t* words);

  /// Whether any of a group's tokens can beat e^score = bar with noise of `words`. May be wrong if none can, never if one can.
  bool (*any_contender)(const float* weights, const std::uint32_t* words, float bar);
};

/// The fastest form that this processor runs.
const LogitKernels& logit_kernels();

const LogitKernels& logit_kernels_portable();
const LogitKernels& logit_kernels_avx2();
const LogitKernels& logit_kernels_avx512();

/// Whether a value is neither infinite nor NaN.
inline bool is_finite(float value) {
  return value >= -kLargestLogit && value <= kLargestLogit;
}

/// Whether weight / (−ln u) > bar is possible for u = (word + 1/2) / 2^32: −ln u is at least 1 − u. The factor outweighs all
/// rounding.
LYNX_HD inline bool may_beat(float weight, std::uint32_t word, float bar) {
  return weight * (4294967296.0F * 1.0009765625F) > static_cast<float>(~word) * bar;
}

struct Best {
  float value;  ///< kMasked when no logit is finite.
  std::int32_t token;
};

/// The largest finite logit; ties: the lower id.
Best find_best(std::span<const float> logits);

/// Σ e^(logit − highest) over the finite logits, in a fixed order of additions.
double sum_of_exponentials(std::span<const float> logits, float highest);

}  // namespace lynx::model
