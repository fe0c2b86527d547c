#pragma once

// What a GGUF file of the llama architecture says about the model: its shape and its tensors.

#include "common/status.h"
#include "model/gguf.h"
#include "model/llama_tensors.h"
#include "model/model_config.h"
#include "model/tensor_table.h"

namespace lynx::model {

/// The names that ggml gives to the tensors.
extern const LlamaTensorNames kGgufTensorNames;

/// The file's tensors; each type that Lynx reads is in bounds and overlaps no other tensor. Borrows from the bytes under `file`.
Result<TensorTable> gguf_tensors(const GgufFile& file);

/// The model's shape, validated; `vocabulary` is the number of tokens in the file. Takes the RoPE factors out of `table`. End
/// tokens are left empty. `file` must be of architecture "llama"; keys that change its arithmetic are UNIMPLEMENTED by name.
Result<ModelConfig> gguf_config(const GgufFile& file, int vocabulary, TensorTable& table);

}  // namespace lynx::model
