#pragma once

#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/model_config.h"
#include "model/model_file.h"
#include "model/tensor_table.h"

namespace lynx::model {

/// What a format calls the tensors of the llama architecture. Layer i's are layer_prefix + "i." + name.
struct LlamaTensorNames {
  std::string_view embedding;
  std::string_view final_norm;
  std::string_view head;
  std::string_view layer_prefix;
  std::string_view attention_norm, q, k, v, o;
  std::string_view ffn_norm, gate, up, down;
};

/// All weights of a model; the data belongs to the mapped files.
struct LlamaTensors {
  matmul::WeightSource embedding;
  matmul::WeightSource final_norm;
  matmul::WeightSource head;  ///< The embedding when tied.
  std::vector<LayerTensors> layers;
};

/// Takes every tensor that `config` asks for out of `table`, with exact shapes, and refuses what is left over (UNIMPLEMENTED, by
/// name): biases, expert weights and the like would change the result. `config` must be valid.
Result<LlamaTensors> bind_llama_tensors(const ModelConfig& config, const LlamaTensorNames& names, TensorTable& table);

}  // namespace lynx::model
