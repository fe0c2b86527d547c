#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "attention/attention.h"
#include "common/status.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"
#include "model/model_config.h"
#include "model/model_file.h"
#include "quant/plane_profile.h"

namespace lynx::model {

/// Told on the caller's thread, within a pass, that K and V of all its rows are stored in `layer`; later layers are not computed
/// yet.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void on_layer_stored(int layer) = 0;
};

/// One ragged forward pass: any mix of prefill chunks and decode steps. Nothing is owned.
struct ForwardBatch {
  std::span<const std::int32_t> tokens;          ///< [rows], the spans' tokens one after the other.
  std::span<const attention::QuerySpan> spans;   ///< Their positions and block tables; spans cover the rows in order, without gaps.
  std::span<const int> logit_rows;               ///< Rows whose logits are wanted, ascending.
  LayerObserver* observer = nullptr;             ///< May be null.
  const kv::AnchorCache* anchors = nullptr;      ///< What spans with anchor_blocks read; may be null if there are none.
  const quant::PlaneProfile* profile = nullptr;  ///< Of the planes; null is the empty one.
};

/// A llama-architecture model ready to run on one ISA path. Weights are immutable; forward() uses internal scratch and is the
/// engine thread's.
class Model {
 public:
  /// Packs the weights of `file` (which may be closed afterwards).
  static Result<std::unique_ptr<Model>> load(ModelFile& file, Isa isa, ThreadPool* pool);
  ~Model();

  const ModelConfig& config() const;
  kv::KvShape kv_shape() const;
  std::size_t weight_bytes() const;
  /// Rows a pass may have, and rows of logits: what the scratch was sized for.
  int max_rows() const;
  int max_logit_rows() const;

  /// Stores K and V of every row, then writes logits[i][vocabulary] (FP32) for logit_rows[i]. Batch-invariant: a row's logits
  /// depend on its sequence's tokens alone. Token ids must be inside the vocabulary, positions below the context, blocks writable.
  void forward(const ForwardBatch& batch, kv::KvCache& cache, float* logits);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::model
