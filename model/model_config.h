#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace lynx::model {

/// Which elements of a head are rotated together. GGUF's llama files store Q and K rows permuted for kInterleaved; HF directories
/// use kHalf.
enum class RopeStyle { kInterleaved, kHalf };

/// Llama-3 style frequency scaling ("rope_type": "llama3"); factor 1 = none. "linear" is factor alone.
struct RopeScaling {
  enum class Type { kNone, kLinear, kLlama3 };
  Type type = Type::kNone;
  float factor = 1.0F;
  float low_freq_factor = 1.0F;
  float high_freq_factor = 4.0F;
  int original_context = 8192;
  std::vector<float>
      factors;  ///< Explicit per-frequency divisors [head_dim/2] (GGUF's rope_freqs.weight), on top of `type`; empty = none.
};

/// Shape of a llama-architecture model, checked once at load.
struct ModelConfig {
  std::string name;  ///< From the file; for display. Valid UTF-8; may be empty.
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocabulary = 0;
  int context = 0;  ///< Longest sequence the model was made for.
  float norm_epsilon = 1e-5F;
  float rope_theta = 10000.0F;
  RopeStyle rope_style = RopeStyle::kHalf;
  RopeScaling rope_scaling;
  bool tied_head = false;                ///< The output head is the embedding.
  std::vector<std::int32_t> end_tokens;  ///< Tokens that end a generation (eos, eot, <|im_end|> …); ascending, no duplicates.
};

/// INVALID_ARGUMENT naming the first field that no llama model can have, or that is beyond what indices and sizes are made for:
/// after this, products of two dimensions fit an int64 and each dimension fits an int with room to spare.
Status validate(const ModelConfig& config);

}  // namespace lynx::model
