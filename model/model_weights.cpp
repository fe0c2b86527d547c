#include "model/model_weights.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "quant/weight_blocks.h"

namespace lynx::model {

namespace {

std::vector<float> read_vector(const matmul::WeightSource& source) {
  std::vector<float> values(static_cast<std::size_t>(source.cols));
  quant::dequantize(source.type, source.data, values.size(), values.data());
  return values;
}

/// Packs tensors and remembers the first failure, so that a whole layer reads as one expression.
class Packer {
 public:
  Packer(Isa isa, ThreadPool& pool) : isa_(isa), pool_(pool) {}

  Result<matmul::PackedMatrix> pack(std::string_view name, std::initializer_list<matmul::WeightSource> sources) const {
    auto packed = matmul::PackedMatrix::pack(std::span(sources.begin(), sources.size()), isa_, pool_);
    if (!packed.ok()) return packed.status().with_context(name);
    return packed;
  }

  Result<LayerWeights> pack_layer(const LayerTensors& tensors) const {
    LYNX_TRY(auto qkv, pack("attention q, k, v", {tensors.q, tensors.k, tensors.v}));
    LYNX_TRY(auto o, pack("attention output", {tensors.o}));
    LYNX_TRY(auto gate_up, pack("FFN gate, up", {tensors.gate, tensors.up}));
    LYNX_TRY(auto down, pack("FFN down", {tensors.down}));
    return LayerWeights{read_vector(tensors.attention_norm), std::move(qkv),     std::move(o),
                        read_vector(tensors.ffn_norm),       std::move(gate_up), std::move(down)};
  }

 private:
  Isa isa_;
  ThreadPool& pool_;
};

}  // namespace

std::size_t ModelWeights::bytes() const {
  std::size_t bytes = head.bytes() + (untied ? untied->bytes() : 0) + final_norm.size() * sizeof(float);
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.bytes() + layer.o.bytes() + layer.gate_up.bytes() + layer.down.bytes();
    bytes += (layer.attention_norm.size() + layer.ffn_norm.size()) * sizeof(float);
  }
  return bytes;
}

Result<ModelWeights> load_weights(ModelFile& file, Isa isa, ThreadPool& pool) {
  const Packer packer(isa, pool);
  LYNX_TRY(auto head, packer.pack("output head", {file.head()}));
  ModelWeights weights{{}, read_vector(file.final_norm()), std::move(head), std::nullopt};
  if (!file.config().tied_head) {
    LYNX_TRY(auto embedding, packer.pack("token embedding", {file.embedding()}));
    weights.untied = std::move(embedding);
  }
  file.drop_pages();
  weights.layers.reserve(static_cast<std::size_t>(file.config().layers));
  for (int index = 0; index < file.config().layers; ++index) {
    auto layer = packer.pack_layer(file.layer(index));
    if (!layer.ok()) return layer.status().with_context("layer " + std::to_string(index));
    weights.layers.push_back(std::move(layer).value());
    file.drop_pages();
  }
  return weights;
}

}  // namespace lynx::model
