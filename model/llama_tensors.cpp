#include "model/llama_tensors.h"

#include <string>

#include <fmt/format.h>

#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

Result<LayerTensors> bind_layer(const ModelConfig& config, const LlamaTensorNames& names, int index, TensorTable& table) {
  const std::string prefix = fmt::format("{}{}.", names.layer_prefix, index);
  const auto matrix = [&](std::string_view name, int rows, int cols) {
    return table.take_matrix(prefix + std::string(name), rows, cols);
  };
  const auto vector = [&](std::string_view name, int length) { return table.take_vector(prefix + std::string(name), length); };
  const int q_rows = config.heads * config.head_dim;
  const int kv_rows = config.kv_heads * config.head_dim;
  LYNX_TRY(const auto attention_norm, vector(names.attention_norm, config.hidden));
  LYNX_TRY(const auto q, matrix(names.q, q_rows, config.hidden));
  LYNX_TRY(const auto k, matrix(names.k, kv_rows, config.hidden));
  LYNX_TRY(const auto v, matrix(names.v, kv_rows, config.hidden));
  LYNX_TRY(const auto o, matrix(names.o, config.hidden, q_rows));
  LYNX_TRY(const auto ffn_norm, vector(names.ffn_norm, config.hidden));
  LYNX_TRY(const auto gate, matrix(names.gate, config.ffn, config.hidden));
  LYNX_TRY(const auto up, matrix(names.up, config.ffn, config.hidden));
  LYNX_TRY(const auto down, matrix(names.down, config.hidden, config.ffn));
  return LayerTensors{attention_norm, q, k, v, o, ffn_norm, gate, up, down};
}

}  // namespace

Result<LlamaTensors> bind_llama_tensors(const ModelConfig& config, const LlamaTensorNames& names, TensorTable& table) {
  LYNX_TRY(const auto embedding, table.take_matrix(names.embedding, config.vocabulary, config.hidden));
  LYNX_TRY(const auto final_norm, table.take_vector(names.final_norm, config.hidden));
  matmul::WeightSource head = embedding;
  if (config.tied_head) {
    table.ignore(names.head);  // Some files repeat the embedding under the head's name.
  } else {
    LYNX_TRY(head, table.take_matrix(names.head, config.vocabulary, config.hidden));
  }
  LlamaTensors tensors{embedding, final_norm, head, {}};
  for (int index = 0; index < config.layers; ++index) {
    LYNX_TRY(const LayerTensors layer, bind_layer(config, names, index, table));
    tensors.layers.push_back(layer);
  }
  if (const auto unused = table.unused(); !unused.empty()) {
    return unimplemented(fmt::format("tensor {}: not part of the llama architecture as Lynx runs it (1 of {} such tensors)",
                                     quote(unused.front()), unused.size()));
  }
  return tensors;
}

}  // namespace lynx::model
