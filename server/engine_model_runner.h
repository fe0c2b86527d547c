#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/status.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "quant/plane_profile.h"
#include "server/engine_runner.h"

namespace lynx::server {

/// A Model with a KV cache of its own.
class ModelRunner final : public Runner {
 public:
  struct Options {
    std::int64_t kv_memory_bytes = 0;
    bool with_anchors = false;      ///< Blocks have room for Anchor planes too.
    quant::PlaneProfile profile{};  ///< For prompts that are computed here.
    Isa isa = Isa::kPortable;
  };
  /// `model` is not owned and outlives the runner. RESOURCE_EXHAUSTED when `kv_memory_bytes` holds no block or cannot be had.
  static Result<std::unique_ptr<ModelRunner>> create(model::Model* model, const Options& options);

  kv::KvCache& cache() { return cache_; }                                 ///< Lives as long as the runner, in its place.
  kv::AnchorCache* anchors() { return anchors_ ? &*anchors_ : nullptr; }  ///< Same; null without.

  int vocabulary() const override { return model_->config().vocabulary; }
  int context() const override { return model_->config().context; }
  const std::vector<std::int32_t>& end_tokens() const override { return model_->config().end_tokens; }
  int kv_blocks() const override { return cache_.blocks(); }
  int max_rows() const override { return model_->max_rows(); }
  int max_logit_rows() const override { return model_->max_logit_rows(); }
  void forward(const model::ForwardBatch& batch, float* logits) override {
    model::ForwardBatch with_anchors = batch;
    with_anchors.anchors = anchors();
    model_->forward(with_anchors, cache_, logits);
  }
  void complete_prompt(std::span<const kv::BlockId> blocks, int tokens, TransferMode mode) override;
  void copy_block(kv::BlockId from, kv::BlockId to) override { cache_.copy_block(from, to); }

 private:
  ModelRunner(model::Model* model, const Options& options, kv::KvCache cache, std::optional<kv::AnchorCache> anchors)
      : model_(model), profile_(options.profile), isa_(options.isa), cache_(std::move(cache)), anchors_(std::move(anchors)) {}

  model::Model* model_;
  quant::PlaneProfile profile_;
  Isa isa_;
  kv::KvCache cache_;
  std::optional<kv::AnchorCache> anchors_;
};

}  // namespace lynx::server
