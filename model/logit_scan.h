#pragma once

// Passes over a vocabulary of logits, shared by sampling and log probabilities. Written so that the compiler makes vectors of them;
// floating-point results do not depend on how it does.

#include <cstdint>
#include <limits>
#include <span>

#include "device/exp_math.h"

namespace lynx::model {

inline constexpr float kLargestLogit = std::numeric_limits<float>::max();
inline constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Values handled as one unit by the passes.
inline constexpr int kScanLanes = 16;

/// The value itself when finite, else kMasked.
inline float finite_or_masked(float value) {
  return value >= -kLargestLogit && value <= kLargestLogit ? value : kMasked;
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
