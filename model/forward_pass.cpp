#include "model/forward_pass.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "common/units.h"
#include "matmul/matmul.h"
#include "model/rope.h"

namespace lynx::model {

namespace {

constexpr int kMostRows = 1024;
constexpr int kFewestRows = 64;
constexpr std::size_t kScratchBytes = std::size_t{64} << 20;  ///< Larger models get fewer rows a pass, down to kFewestRows.

/// Hands out page-aligned parts of one buffer; with no buffer it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::size_t count) {
    T* const part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 4095) / 4096 * 4096;
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

std::size_t row_bytes(const ModelConfig& config, int q_width, int wide) {
  const auto floats = static_cast<std::size_t>(config.hidden + wide + config.head_dim);
  const auto halves = static_cast<std::size_t>(config.hidden + 2 * q_width + config.ffn);
  return floats * sizeof(float) + halves * sizeof(Bf16);
}

int widest_product(const ModelConfig& config, int qkv_width) {
  return std::max({qkv_width, config.hidden, 2 * config.ffn});
}

std::size_t offset(int row, int width) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(width);
}

/// Moves rows together: row i becomes row rows[i]. Ascending, so that none is overwritten before it moved.
template <class T>
void gather_rows(T* values, int width, std::span<const int> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i]) == i) continue;
    std::memmove(values + offset(static_cast<int>(i), width), values + offset(rows[i], width),
                 static_cast<std::size_t>(width) * sizeof(T));
  }
}

}  // namespace

ForwardPass::ForwardPass(const ModelConfig& config, Isa isa, ThreadPool* pool)
    : config_(config),
      isa_(isa),
      pool_(pool),
      kernels_(elementwise_kernels(isa)),
      frequencies_(rope_frequencies(config)),
      qkv_width_((config.heads + 2 * config.kv_heads) * config.head_dim),
      q_width_(config.heads * config.head_dim),
      kv_width_(config.kv_heads * config.head_dim) {}

Result<ForwardPass> ForwardPass::create(const ModelConfig& config, Isa isa, ThreadPool* pool) {
  ForwardPass pass(config, isa, pool);
  LYNX_RETURN_IF_ERROR(pass.allocate());
  return pass;
}

Status ForwardPass::allocate() {
  const int wide = widest_product(config_, qkv_width_);
  const std::size_t fitting = kScratchBytes / row_bytes(config_, q_width_, wide) / 64 * 64;
  max_rows_ = static_cast<int>(std::clamp<std::size_t>(fitting, kFewestRows, kMostRows));
  const auto carve = [&](std::byte* base) {
    Carver carver(base);
    residual_ = carver.take<float>(offset(max_rows_, config_.hidden));
    wide_ = carver.take<float>(offset(max_rows_, wide));
    cosine_ = carver.take<float>(offset(max_rows_, config_.head_dim / 2));
    sine_ = carver.take<float>(offset(max_rows_, config_.head_dim / 2));
    input_ = carver.take<Bf16>(offset(max_rows_, config_.hidden));
    q_ = carver.take<Bf16>(offset(max_rows_, q_width_));
    mixed_ = carver.take<Bf16>(offset(max_rows_, q_width_));
    activated_ = carver.take<Bf16>(offset(max_rows_, config_.ffn));
    return carver.used();
  };
  const std::size_t bytes = carve(nullptr);
  auto memory = HostBuffer::allocate(bytes);
  if (!memory.ok()) return memory.status().with_context("working memory of a pass");
  memory_ = std::move(memory).value();
  carve(memory_.data());
  positions_.resize(static_cast<std::size_t>(max_rows_));
  tables_.resize(static_cast<std::size_t>(max_rows_));
  kept_spans_.reserve(static_cast<std::size_t>(max_rows_));
  return {};
}

template <class Body>
void ForwardPass::each_row(int width, const Body& body) {
  constexpr int kStretch = 8192;  // Values: a few microseconds, so that handing out costs little and one row runs at once.
  const int rows = std::clamp(kStretch / width, 1, 64);
  pool_->for_each((rows_ + rows - 1) / rows, [&](int item) {
    const int end = std::min(rows_, (item + 1) * rows);
    for (int row = item * rows; row < end; ++row) body(row);
  });
}

void ForwardPass::embed(const ModelWeights& weights, std::span<const std::int32_t> tokens) {
  each_row(config_.hidden, [&](int row) {
    Bf16* const rounded = input_ + offset(row, config_.hidden);
    float* const out = residual_ + offset(row, config_.hidden);
    matmul::read_row(weights.embedding(), tokens[static_cast<std::size_t>(row)], rounded);
    for (int i = 0; i < config_.hidden; ++i) out[i] = bf16_to_float(rounded[i]);
  });
}

/// Position, block table and rotation of every row.
void ForwardPass::locate(std::span<const attention::QuerySpan> spans) {
  for (const attention::QuerySpan& span : spans) {
    for (int i = 0; i < span.rows; ++i) {
      positions_[static_cast<std::size_t>(span.first_row + i)] = span.first_position + i;
      tables_[static_cast<std::size_t>(span.first_row + i)] = span.blocks;
    }
  }
  const int half = config_.head_dim / 2;
  each_row(64 * half, [&](int row) {
    rope_row(frequencies_, positions_[static_cast<std::size_t>(row)], cosine_ + offset(row, half), sine_ + offset(row, half));
  });
}

void ForwardPass::norm_rows(const std::vector<float>& weight) {
  each_row(config_.hidden, [&](int row) {
    const std::size_t at = offset(row, config_.hidden);
    kernels_.rms_norm(residual_ + at, weight.data(), config_.hidden, config_.norm_epsilon, input_ + at);
  });
}

void ForwardPass::add_rows() {
  each_row(config_.hidden, [&](int row) {
    const std::size_t at = offset(row, config_.hidden);
    kernels_.add(residual_ + at, wide_ + at, config_.hidden);
  });
}

/// q, k and v of every row lie in wide_: rotates q and k, keeps q, stores k and v.
void ForwardPass::store_and_rotate(int layer, kv::KvCache& cache) {
  const auto rotate = config_.rope_style == RopeStyle::kHalf ? kernels_.rotate_half : kernels_.rotate_interleaved;
  const int half = config_.head_dim / 2;
  each_row(qkv_width_, [&](int row) {
    float* const qkv = wide_ + offset(row, qkv_width_);
    rotate(qkv, cosine_ + offset(row, half), sine_ + offset(row, half), config_.heads + config_.kv_heads, config_.head_dim);
    kernels_.round(qkv, q_width_, q_ + offset(row, q_width_));
    const float* const k = qkv + q_width_;
    cache.store(layer, tables_[static_cast<std::size_t>(row)], positions_[static_cast<std::size_t>(row)], k, k + kv_width_);
  });
}

/// The rows of `batch` that have logits move together, and become the rows of the rest of the pass.
void ForwardPass::keep_rows(const ForwardBatch& batch) {
  const std::span<const int> rows = batch.logit_rows;
  kept_spans_.clear();
  auto span = batch.spans.begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool follows = i > 0 && rows[i] == rows[i - 1] + 1 && rows[i] < span->first_row + span->rows;
    if (follows) {
      ++kept_spans_.back().rows;
      continue;
    }
    while (rows[i] >= span->first_row + span->rows) ++span;
    const int position = span->first_position + (rows[i] - span->first_row);
    kept_spans_.push_back({span->blocks, position, 1, static_cast<int>(i), span->anchor_blocks});
  }
  gather_rows(residual_, config_.hidden, rows);
  gather_rows(q_, q_width_, rows);
  rows_ = static_cast<int>(rows.size());
}

void ForwardPass::attention_half(const LayerWeights& weights, int layer, kv::KvCache& cache,
                                 std::span<const attention::QuerySpan> spans, const ForwardBatch& batch) {
  const attention::HeadShape shape{config_.heads, 1.0F / __builtin_sqrtf(static_cast<float>(config_.head_dim))};
  const attention::AnchorView view{batch.anchors, batch.profile != nullptr && batch.profile->is_wide_k(layer)};
  attention::attend(cache, layer, shape, spans, q_, mixed_, isa_, *pool_, batch.anchors != nullptr ? &view : nullptr);
  matmul::multiply(weights.o, mixed_, rows_, q_width_, wide_, config_.hidden, *pool_);
  add_rows();
}

void ForwardPass::ffn_half(const LayerWeights& weights) {
  norm_rows(weights.ffn_norm);
  const int width = 2 * config_.ffn;
  matmul::multiply(weights.gate_up, input_, rows_, config_.hidden, wide_, width, *pool_);
  each_row(width, [&](int row) {
    const float* const gate = wide_ + offset(row, width);
    kernels_.swiglu(gate, gate + config_.ffn, config_.ffn, activated_ + offset(row, config_.ffn));
  });
  matmul::multiply(weights.down, activated_, rows_, config_.ffn, wide_, config_.hidden, *pool_);
  add_rows();
}

void ForwardPass::run(const ModelWeights& weights, const ForwardBatch& batch, kv::KvCache& cache, float* logits) {
  assert(!batch.tokens.empty() && batch.tokens.size() <= static_cast<std::size_t>(max_rows_));
  rows_ = static_cast<int>(batch.tokens.size());
  embed(weights, batch.tokens);
  locate(batch.spans);
  std::span<const attention::QuerySpan> spans = batch.spans;
  for (int layer = 0; layer < config_.layers; ++layer) {
    const LayerWeights& own = weights.layers[static_cast<std::size_t>(layer)];
    norm_rows(own.attention_norm);
    matmul::multiply(own.qkv, input_, rows_, config_.hidden, wide_, qkv_width_, *pool_);
    store_and_rotate(layer, cache);
    if (batch.observer != nullptr) batch.observer->on_layer_stored(layer);
    if (layer + 1 == config_.layers) {  // From here on only what the logits need.
      if (batch.logit_rows.empty()) return;
      keep_rows(batch);
      spans = kept_spans_;
    }
    attention_half(own, layer, cache, spans, batch);
    ffn_half(own);
  }
  norm_rows(weights.final_norm);
  matmul::multiply(weights.head, input_, rows_, config_.hidden, logits, config_.vocabulary, *pool_);
}

}  // namespace lynx::model
