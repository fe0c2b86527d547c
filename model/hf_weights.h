#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/llama_tensors.h"
#include "model/mapped_file.h"
#include "model/tensor_table.h"

namespace lynx::model {

/// The names that `transformers` gives to the tensors of LlamaForCausalLM.
extern const LlamaTensorNames kHfTensorNames;

/// The tensors of a directory, and the mappings they borrow from.
struct HfWeights {
  std::vector<MappedFile> files;
  TensorTable table;
};

/// Reads model.safetensors, or the shards that model.safetensors.index.json lists. Errors start with the path.
Result<HfWeights> open_hf_weights(const std::string& directory);

/// INVALID_ARGUMENT unless `name` is a plain file name that ends in .safetensors: an index must not reach outside its directory.
Status check_shard_name(std::string_view name);

}  // namespace lynx::model
