#pragma once

// Rotary position embedding: frequencies once per model, sines and cosines once per pass (all layers share them). Computed without
// libm, so that they are equal on every processor; a table over the whole context of a 128K model would cost 64 MiB.

#include <vector>

#include "model/model_config.h"

namespace lynx::model {

/// Angle per position for each pair of a head [head_dim / 2], in FP32 as `transformers` computes them, scaling applied.
std::vector<float> rope_frequencies(const ModelConfig& config);

/// cosine and sine [frequencies.size()] of position · frequency (the product rounded to FP32).
void rope_row(const std::vector<float>& frequencies, int position, float* cosine, float* sine);

}  // namespace lynx::model
