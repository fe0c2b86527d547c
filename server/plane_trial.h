#pragma once

// What a prompt's planes take on the wire, and what they do to the text behind it: the prompt is computed exactly, a continuation
// is chosen at full precision, and then the views are read in place of the exact cache. For the `lynx` tool; no server runs this.

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "model/sampler.h"
#include "quant/plane_profile.h"
#include "quant/plane_unit.h"

namespace lynx::server {

inline constexpr int kDraftTokens = 32;  ///< Drafted from one place, at most.
inline constexpr int kDraftStride = 8;   ///< Tokens of a continuation from one draft's start to the next's.
inline constexpr int kDraftBlocks = 2;   ///< That one draft writes to, at most.
static_assert(kDraftTokens <= kv::kBlockTokens);

/// Bytes on the wire, summed over units; each plane's with its headers. The tail block travels raw and is in all three.
struct PlaneSizes {
  std::uint64_t values = 0;  ///< Of the prompt's tokens.
  std::uint64_t anchor = 0;
  std::uint64_t int8 = 0;   ///< Anchor and int8 Residual.
  std::uint64_t exact = 0;  ///< Anchor and exact Residual.

  PlaneSizes& operator+=(const PlaneSizes& other);
  static double bits(std::uint64_t bytes, std::uint64_t values);
};

/// What followed a prompt, chosen from exact logits.
struct Continuation {
  model::SamplingParams sampling;
  std::vector<std::int32_t> tokens;  ///< Up to an end token.
  std::vector<float> logits;         ///< [tokens.size() − 1][vocabulary]; row i chose tokens[i + 1].
};

/// How far a view's predictions are from the exact ones, summed over rows.
struct ViewDifference {
  double divergence = 0;  ///< KL(exact ‖ view), nats.
  int agreed = 0;         ///< Rows whose likeliest token is the same.
  int rows = 0;

  ViewDifference& operator+=(const ViewDifference& other);
};

/// One draft: how many tokens were right before the first wrong one, of those that the continuation could have confirmed.
struct DraftRun {
  int accepted;
  int offered;  ///< At most kDraftTokens.
};

enum class PlaneView { kAnchor, kInt8 };

/// One prompt at a time in a cache of its own. One thread, which also uses the pool.
class PlaneTrial {
 public:
  /// For prompts and continuations up to these lengths; of a continuation start at most max_logit_rows() drafts, so it has at most
  /// kDraftStride times as many tokens. The model and the pool outlive it.
  static Result<PlaneTrial> create(model::Model* model, Isa isa, ThreadPool* pool, int prompt_tokens, int continuation);

  /// Computes the prompt. It has more than one block, so that something of it is coded.
  void set_prompt(std::span<const std::int32_t> prompt);

  /// Codes the prompt's Anchors, of all layers or of one layer's K.
  void code(const quant::PlaneProfile& profile);
  void code_k(int layer, bool wide);

  /// What the Anchors of a prompt of this length take, and its tail; of K and V, all layers. `int8` and `exact` stay 0.
  PlaneSizes anchor_sizes(int prompt_tokens, const quant::PlaneProfile& profile) const;

  /// Sizes of K's or V's units with the profile last coded. INTERNAL if an exact Residual does not give its unit back.
  Result<PlaneSizes> measure(quant::PlanePart part) const;

  /// Decodes a view of all layers, or the anchor view of one layer's K, for compare().
  void expand(PlaneView view);
  void expand_k(int layer);

  /// Up to `tokens` tokens. Its KV takes the place of an earlier continuation's.
  Continuation continue_exactly(const model::SamplingParams& sampling, int tokens);

  /// One pass over a continuation of this prompt that attends over the expanded view.
  ViewDifference compare(const Continuation& continuation);

  /// Drafts from many places of the last continuation, over the Anchor planes in place, with the continuation's noise.
  std::vector<DraftRun> draft(const Continuation& continuation);

 private:
  /// Ids of the cache's blocks, region by region.
  struct Regions {
    int prompt;        ///< Most coded blocks.
    kv::BlockId view;  ///< Before it the prompt and its continuation.
    kv::BlockId tail;  ///< What a pass over a view writes.
    kv::BlockId drafts;
    int blocks;
  };
  static Regions regions_for(int prompt_tokens, int continuation);

  PlaneTrial(model::Model* model, Isa isa, ThreadPool* pool, Regions regions, kv::KvCache cache, kv::AnchorCache planes);

  struct Draft;
  std::vector<Draft> begin_drafts(const Continuation& continuation);

  quant::PlaneUnit unit(int layer, int block, quant::PlanePart part) const;
  void read(int layer, int block, quant::PlanePart part, std::span<Bf16> values) const;
  void code_unit(int layer, int block, quant::PlanePart part);
  void expand_unit(int layer, int block, quant::PlanePart part, PlaneView view);
  Result<PlaneSizes> measure_unit(int layer, int block, quant::PlanePart part) const;
  PlaneSizes measure_tail(int prompt_tokens) const;
  int coded_blocks() const { return quant::coded_blocks(static_cast<int>(prompt_.size())); }
  void pass(std::span<const std::int32_t> tokens, std::span<const attention::QuerySpan> spans, std::span<const int> logit_rows,
            float* logits);
  std::int32_t choose(std::span<const float> logits, const Continuation& continuation, int generated);

  model::Model* model_;
  Isa isa_;
  ThreadPool* pool_;
  Regions regions_;
  kv::KvCache cache_;
  kv::AnchorCache planes_;
  std::vector<kv::BlockId> exact_table_;
  std::vector<std::int32_t> prompt_;
  std::vector<float> prompt_logits_;  ///< Of its last row.
  quant::PlaneProfile profile_;
  model::SampleScratch scratch_;
};

}  // namespace lynx::server
