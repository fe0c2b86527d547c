#pragma once

// One forward pass over ragged rows. The residual stream is FP32; the inputs of matrix products and attention are rounded to BF16,
// their outputs are FP32. Nothing here depends on how many rows there are, so neither do a row's bits.

#include <span>
#include <vector>

#include "common/status.h"
#include "device/host_buffer.h"
#include "model/elementwise.h"
#include "model/model.h"
#include "model/model_weights.h"

namespace lynx::model {

/// Working memory and the steps of a pass. The engine thread's; weights and pool must outlive it.
class ForwardPass {
 public:
  /// RESOURCE_EXHAUSTED when the working memory cannot be had.
  static Result<ForwardPass> create(const ModelConfig& config, Isa isa, ThreadPool* pool);

  int max_rows() const { return max_rows_; }

  /// Model::forward.
  void run(const ModelWeights& weights, const ForwardBatch& batch, kv::KvCache& cache, float* logits);

 private:
  ForwardPass(const ModelConfig& config, Isa isa, ThreadPool* pool);

  Status allocate();
  void embed(const ModelWeights& weights, std::span<const std::int32_t> tokens);
  void locate(std::span<const attention::QuerySpan> spans);
  void store_and_rotate(int layer, kv::KvCache& cache);
  void attention_half(const LayerWeights& weights, int layer, kv::KvCache& cache, std::span<const attention::QuerySpan> spans,
                      const ForwardBatch& batch);
  void ffn_half(const LayerWeights& weights);
  void keep_rows(const ForwardBatch& batch);
  void norm_rows(const std::vector<float>& weight);
  void add_rows();

  /// body(row) for all rows of the pass, in stretches of about as much work.
  template <class Body>
  void each_row(int width, const Body& body);

  ModelConfig config_;
  Isa isa_;
  ThreadPool* pool_;
  const ElementwiseKernels& kernels_;
  std::vector<float> frequencies_;
  int qkv_width_;
  int q_width_;
  int kv_width_;
  int max_rows_ = 0;

  HostBuffer memory_;
  float* residual_ = nullptr;  // [max_rows][hidden]
  float* wide_ = nullptr;      // [max_rows][the widest product]: every product's output in turn
  float* cosine_ = nullptr;    // [max_rows][head_dim / 2]
  float* sine_ = nullptr;      // [max_rows][head_dim / 2]
  Bf16* input_ = nullptr;      // [max_rows][hidden]: normed rows
  Bf16* q_ = nullptr;          // [max_rows][heads · head_dim]
  Bf16* mixed_ = nullptr;      // [max_rows][heads · head_dim]: attention's output
  Bf16* activated_ = nullptr;  // [max_rows][ffn]

  int rows_ = 0;                                  // Of the running pass; the last layer drops those without logits.
  std::vector<int> positions_;                    // [max_rows]
  std::vector<const kv::BlockId*> tables_;        // [max_rows]
  std::vector<attention::QuerySpan> kept_spans_;  // Spans of the rows with logits.
};

}  // namespace lynx::model
