#include "model/numerics_fingerprint.h"

#include <algorithm>
#include <vector>

#include "kv/kv_cache.h"
#include "model/content_hash.h"

namespace lynx::model {
namespace {

constexpr int kWideRows = 64;
constexpr int kVerifyRows = 16;
/// Where the wide pass begins: it crosses attention's 512-token border. What lies before is filled in, not computed.
constexpr int kFirstPosition = 464;

/// Small numbers of both signs, the same on every machine.
class Pattern {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  Bf16 next_value() {
    const std::uint32_t bits = next();
    return static_cast<Bf16>((bits & 0x8000U) | 0x3e80U | (bits & 0xffU));  // ±(0.25 … 0.998)
  }

 private:
  std::uint64_t state_ = 20260701;
};

class Canary {
 public:
  Canary(Model& model, kv::KvCache cache) : model_(model), cache_(std::move(cache)), vocabulary_(model.config().vocabulary) {
    const kv::KvShape& shape = cache_.shape();
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (kv::BlockId block = 0; block < cache_.blocks(); ++block) {
        for (int head = 0; head < shape.kv_heads; ++head) fill(layer, block, head);
      }
    }
    // Sequences longer than the cache read its blocks over and over.
    for (int i = 0; i < kv::blocks_for(model.config().context); ++i) table_.push_back(i % cache_.blocks());
    logits_.resize(static_cast<std::size_t>(kWideRows) * static_cast<std::size_t>(vocabulary_));
  }

  // `rows` positions from `first` on, each with its logits.
  void pass(int first, int rows) {
    std::vector<std::int32_t> tokens;
    std::vector<int> logit_rows;
    for (int row = 0; row < rows; ++row) {
      tokens.push_back(static_cast<std::int32_t>(pattern_.next() % static_cast<std::uint32_t>(vocabulary_)));
      logit_rows.push_back(row);
    }
    const attention::QuerySpan span{table_.data(), first, rows, 0};
    model_.forward({tokens, {&span, 1}, logit_rows}, cache_, logits_.data());
    hash_.add_bytes(logits_.data(), static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocabulary_) * sizeof(float));
  }

  std::string hex() const { return hash_.hex(); }

 private:
  void fill(int layer, kv::BlockId block, int head) {
    const int stored = kv::stored_head_dim(cache_.shape().head_dim);
    for (int token = 0; token < kv::kBlockTokens; ++token) {
      for (int channel = 0; channel < cache_.shape().head_dim; ++channel) {
        cache_.k(layer, block, head)[kv::k_index(token, channel, stored)] = pattern_.next_value();
        cache_.v(layer, block, head)[kv::v_index(token, channel)] = pattern_.next_value();
      }
    }
  }

  Model& model_;
  kv::KvCache cache_;
  int vocabulary_;
  Pattern pattern_;
  std::vector<kv::BlockId> table_;
  std::vector<float> logits_;
  ContentHash hash_;
};

}  // namespace

Result<std::string> numerics_fingerprint(Model& model) {
  const int context = model.config().context;
  const int wide = std::min({kWideRows, model.max_rows(), model.max_logit_rows(), context});
  const int first = std::clamp(context - wide - 1 - kVerifyRows, 0, kFirstPosition);
  const int needed = std::min(context, first + wide + 1 + kVerifyRows);
  LYNX_TRY(auto cache, kv::KvCache::create(model.kv_shape(), kv::blocks_for(needed)));
  Canary canary(model, std::move(cache));
  canary.pass(first, wide);
  if (const int next = first + wide; next < context) canary.pass(next, 1);
  if (const int next = first + wide + 1; next + kVerifyRows <= context) canary.pass(next, std::min(wide, kVerifyRows));
  canary.pass(context - 1, 1);
  return canary.hex();
}

}  // namespace lynx::model
