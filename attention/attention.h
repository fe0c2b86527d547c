#pragma once

// Causal attention of ragged query rows over the paged KV cache, batch-invariant: a row's result depends on its own q and the cache
// alone, bit for bit. The softmax is split at absolute multiples of 512 tokens: each chunk gives (max, sum, output) and chunks are
// merged in ascending order, in prefill as in decode. Probabilities are rounded to BF16 before they weigh V; the sum is of the
// unrounded ones.
//
// Drafting reads a prompt's coded blocks as Anchor planes (docs/plane_format.md). What a span without them gives stays the same bit
// for bit beside spans that have them.

#include <span>

#include "device/bf16_math.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"

namespace lynx::attention {

/// Absolute boundary of the partial softmaxes, in tokens.
inline constexpr int kSoftmaxChunk = 512;

/// Query rows of one sequence: row r of the span has position first_position + r and sees keys 0 … that position.
struct QuerySpan {
  const kv::BlockId* blocks;  ///< Block table covering first_position + rows tokens; not owned.
  int first_position;
  int rows;
  int first_row;  ///< Where the span's rows lie in q and out.
  /// The first so many blocks of the table are read as Anchor planes, whatever the cache holds for them; they are whole, and the
  /// rows lie behind them. 0: all are BF16.
  int anchor_blocks = 0;
};

/// The Anchor planes of one layer; not owned.
struct AnchorView {
  const kv::AnchorCache* planes;
  bool wide_k;  ///< K's Anchors have 8 bits.
};

struct HeadShape {
  int heads;    ///< Query heads, a multiple of the cache's KV heads (grouped-query attention).
  float scale;  ///< Positive, usually 1/sqrt(head_dim); multiplies the scores in FP32.
};

/// out[row][head][head_dim] (BF16) for all rows of all spans; q has the same shape. K and V of the rows themselves are already
/// stored. Keys beyond a row's position never count, whatever lies there. A row whose scores hold a NaN or +infinity, or nothing
/// above -infinity, comes out as NaN. Rows of a span with anchor_blocks are close to attention over the expanded anchor view; the
/// same span gives the same bits whatever is beside it. `anchors` may be null if no span has any; planes may hold any bytes. Called
/// by one thread at a time per pool; working memory is kept by the threads for the next call (some 0.4 MB each, up to 0.9 MB once
/// they read planes, and at most 32 MiB for the caller).
void attend(const kv::KvCache& cache, int layer, HeadShape shape, std::span<const QuerySpan> spans, const Bf16* q, Bf16* out,
            Isa isa, ThreadPool& pool, const AnchorView* anchors = nullptr);

}  // namespace lynx::attention
