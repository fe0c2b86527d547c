#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "server/engine_runner.h"

namespace lynx::server {

/// A Model with a KV cache of its own.
class ModelRunner final : public Runner {
 public:
  /// `model` is not owned and outlives the runner. RESOURCE_EXHAUSTED when `kv_memory_bytes` holds no block or cannot be had.
  static Result<std::unique_ptr<ModelRunner>> create(model::Model* model, std::int64_t kv_memory_bytes);

  kv::KvCache& cache() { return cache_; }  ///< Lives as long as the runner, in its place.

  int vocabulary() const override { return model_->config().vocabulary; }
  int context() const override { return model_->config().context; }
  const std::vector<std::int32_t>& end_tokens() const override { return model_->config().end_tokens; }
  int kv_blocks() const override { return cache_.blocks(); }
  int max_rows() const override { return model_->max_rows(); }
  int max_logit_rows() const override { return model_->max_logit_rows(); }
  void forward(const model::ForwardBatch& batch, float* logits) override { model_->forward(batch, cache_, logits); }
  void copy_block(kv::BlockId from, kv::BlockId to) override { cache_.copy_block(from, to); }

 private:
  ModelRunner(model::Model* model, kv::KvCache cache) : model_(model), cache_(std::move(cache)) {}

  model::Model* model_;
  kv::KvCache cache_;
};

}  // namespace lynx::server
