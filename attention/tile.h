#pragma once

// One tile of the plan: its queries gathered, its chunks computed by the ISA path's kernel, their results merged and written.

#include <cstddef>
#include <memory>

#include "attention/attention.h"
#include "attention/chunk_kernel.h"
#include "attention/plan.h"
#include "kv/kv_cache.h"

namespace lynx::attention {

/// What is the same for all tiles of a call.
struct Call {
  const kv::KvCache* cache;
  int layer;
  HeadShape shape;
  std::span<const QuerySpan> spans;
  const Bf16* q;
  Bf16* out;
  ChunkKernel kernel;
  const AnchorView* anchors;  ///< Null if no span reads planes.

  int group() const { return shape.heads / cache->shape().kv_heads; }
  int dim() const { return kv::stored_head_dim(cache->shape().head_dim); }
};

/// The softmax of `lines` lines over one chunk, or over chunks 0 … n merged: a view of state_size(lines, dim) floats, 64-byte
/// aligned.
struct State {
  float* out;     ///< [lines rounded up to 16][dim]
  float* maxima;  ///< [lines]
  float* sums;    ///< [lines]
};
State state_at(float* memory, int lines, int dim);

/// What reading planes takes: only threads that meet any have it.
struct PlaneScratch {
  AnchorHead k[kChunkTokens / kBlock + kPlanesAhead];
  AnchorHead v[kChunkTokens / kBlock];
  alignas(64) Bf16 view[2 * kChunkTokens * kLargestDim];
};

/// One thread's working memory.
struct Scratch {
  alignas(64) float scores[kTileLines * kScoreStride];
  alignas(64) Bf16 weights[kTileLines * kWeightStride];
  alignas(64) Bf16 q[(kTileLines + kLineTile) * kLargestDim];
  alignas(64) Bf16 v_tail[kBlock * kLargestDim];
  alignas(64) float state[state_size(kTileLines, kLargestDim)];
  alignas(64) float merged[state_size(kTileLines, kLargestDim)];
  alignas(64) float row[state_size(kTileLines, kLargestDim)];
  std::unique_ptr<PlaneScratch> planes;
};

/// Computes all chunks of a tile and writes its part of out.
void compute_tile(const Call& call, const Tile& tile, Scratch& scratch);

/// Computes one chunk of a split tile into its place in `states`.
void compute_split_chunk(const Call& call, const Tile& tile, int chunk, Scratch& scratch, float* states);

/// Merges a split tile's chunks and writes its part of out.
void merge_split_tile(const Call& call, const Tile& tile, float* states);

}  // namespace lynx::attention
