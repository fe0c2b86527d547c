#include "model/model.h"

#include <utility>

#include "model/forward_pass.h"
#include "model/model_weights.h"

namespace lynx::model {

namespace {

constexpr int kMaxLogitRows = 128;

}  // namespace

struct Model::Impl {
  ModelConfig config;
  ModelWeights weights;
  ForwardPass pass;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(ModelFile& file, Isa isa, ThreadPool* pool) {
  LYNX_TRY(auto weights, load_weights(file, isa, *pool));
  LYNX_TRY(auto pass, ForwardPass::create(file.config(), isa, pool));
  return std::unique_ptr<Model>(new Model(std::make_unique<Impl>(Impl{file.config(), std::move(weights), std::move(pass)})));
}

const ModelConfig& Model::config() const {
  return impl_->config;
}

kv::KvShape Model::kv_shape() const {
  return {impl_->config.layers, impl_->config.kv_heads, impl_->config.head_dim};
}

std::size_t Model::weight_bytes() const {
  return impl_->weights.bytes();
}

int Model::max_rows() const {
  return impl_->pass.max_rows();
}

int Model::max_logit_rows() const {
  return kMaxLogitRows;
}

void Model::forward(const ForwardBatch& batch, kv::KvCache& cache, float* logits) {
  impl_->pass.run(impl_->weights, batch, cache, logits);
}

}  // namespace lynx::model
