#include "model/model_identity.h"

#include "model/content_hash.h"
#include "quant/weight_blocks.h"

namespace lynx::model {
namespace {

void add_tensor(const matmul::WeightSource& tensor, ContentHash* hash) {
  hash->add(tensor.type).add(tensor.rows).add(tensor.cols);
  const std::size_t values = static_cast<std::size_t>(tensor.rows) * static_cast<std::size_t>(tensor.cols);
  const std::size_t blocks = values / static_cast<std::size_t>(quant::block_values(tensor.type));
  hash->add_bytes(tensor.data, blocks * quant::block_bytes(tensor.type));
}

// The name and the end tokens are left out: neither changes a logit.
void add_config(const ModelConfig& config, ContentHash* hash) {
  hash->add(config.layers).add(config.hidden).add(config.heads).add(config.kv_heads).add(config.head_dim).add(config.ffn);
  hash->add(config.vocabulary).add(config.context).add(config.norm_epsilon).add(config.rope_theta).add(config.rope_style);
  const RopeScaling& scaling = config.rope_scaling;
  hash->add(scaling.type).add(scaling.factor).add(scaling.low_freq_factor).add(scaling.high_freq_factor);
  hash->add(scaling.original_context).add(scaling.factors.size());
  for (const float factor : scaling.factors) hash->add(factor);
  hash->add(config.tied_head);
}

std::string hash_weights(const ModelFile& file) {
  ContentHash hash;
  add_config(file.config(), &hash);
  add_tensor(file.embedding(), &hash);
  add_tensor(file.final_norm(), &hash);
  if (!file.config().tied_head) add_tensor(file.head(), &hash);
  for (int index = 0; index < file.config().layers; ++index) {
    const LayerTensors layer = file.layer(index);
    for (const auto& tensor :
         {layer.attention_norm, layer.q, layer.k, layer.v, layer.o, layer.ffn_norm, layer.gate, layer.up, layer.down}) {
      add_tensor(tensor, &hash);
    }
  }
  return hash.hex();
}

std::string hash_tokenizer(const text::TokenizerSpec& spec) {
  ContentHash hash;
  hash.add(spec.pre_tokenizer).add(spec.normalizer).add(spec.ignore_merges).add(spec.add_bos);
  hash.add(spec.bos).add(spec.eos).add(spec.pad).add(spec.unknown).add(spec.tokens.size());
  for (const auto& token : spec.tokens) hash.add(token.text).add(token.kind).add(token.strip_left).add(token.strip_right);
  for (const auto& [left, right] : spec.merges) hash.add(left).add(right);
  return hash.hex();
}

}  // namespace

ModelIdentity identify(const ModelFile& file) {
  return {.weights = hash_weights(file), .tokenizer = hash_tokenizer(file.tokenizer())};
}

}  // namespace lynx::model
