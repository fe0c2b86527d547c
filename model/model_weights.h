#pragma once

#include <optional>
#include <vector>

#include "common/status.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "matmul/matmul.h"
#include "model/model_file.h"

namespace lynx::model {

/// One decoder layer, packed. Matrices that read the same input are stacked, so that they are one product.
struct LayerWeights {
  std::vector<float> attention_norm;  ///< [hidden]
  matmul::PackedMatrix qkv;           ///< [(heads + 2 · kv_heads) · head_dim][hidden]
  matmul::PackedMatrix o;             ///< [hidden][heads · head_dim]
  std::vector<float> ffn_norm;        ///< [hidden]
  matmul::PackedMatrix gate_up;       ///< [2 · ffn][hidden]
  matmul::PackedMatrix down;          ///< [hidden][ffn]
};

/// Everything a model's file holds, in the layout of one ISA path. Owns its memory; immutable.
struct ModelWeights {
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;               ///< [hidden]
  matmul::PackedMatrix head;                   ///< [vocabulary][hidden]
  std::optional<matmul::PackedMatrix> untied;  ///< [vocabulary][hidden], the embedding when it is not the head.

  const matmul::PackedMatrix& embedding() const { return untied ? *untied : head; }
  std::size_t bytes() const;
};

/// Packs all tensors; the file's pages are let go layer by layer, so that the peak is the packed weights and little more. Errors
/// say which tensors.
Result<ModelWeights> load_weights(ModelFile& file, Isa isa, ThreadPool& pool);

}  // namespace lynx::model
