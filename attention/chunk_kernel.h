#pragma once

// The one thing that differs between ISA paths: softmax attention of up to kTileLines query lines over one softmax chunk of one KV
// head. Plain structs and functions: this header is compiled with the flags of every path.
//
// A "line" is one query head of one row. A line's results depend on its own q, its own visible keys and their K and V alone: the
// lines beside it and the keys beyond its own can only append additions of zero to its chains.

#include "device/bf16_math.h"

namespace lynx::attention {

inline constexpr int kChunkTokens = 512;  ///< = kSoftmaxChunk.
inline constexpr int kBlock = 64;         ///< = kv::kBlockTokens.
inline constexpr int kLargestDim = 256;   ///< = kv::kMaxHeadDim.
inline constexpr int kTileLines = 48;     ///< Lines that share one pass over K and V; a multiple of 16, 6 and 4.
inline constexpr int kLineTile = 16;      ///< Kernels may read and write whole groups of so many lines.
/// Row lengths of the scratch: off the powers of two, so that a column of lines does not fall into few cache sets.
inline constexpr int kScoreStride = kChunkTokens + 16;
inline constexpr int kWeightStride = kChunkTokens + 32;

/// One KV head's part of an Anchor plane (docs/plane_format.md). Any bytes are sound.
struct AnchorHead {
  const std::uint8_t* scales;     ///< K: [head_dim]. V: [64 tokens][groups of 64 channels].
  const std::int8_t* zeros;       ///< Likewise.
  const std::uint8_t* codes;      ///< Two slots a byte, in the order of the cache's blocks.
  const std::uint8_t* residuals;  ///< Likewise, of a wide K; else null.
  const Bf16* sinks;              ///< [kSinks][head_dim] in the first block of a prompt; else null.
};
inline constexpr int kSinks = 4;        ///< = quant::kSinkTokens.
inline constexpr int kPlanesAhead = 2;  ///< So far ahead planes are fetched.

struct ChunkTask {
  const Bf16* k[kChunkTokens / kBlock];  ///< K parts of the chunk's blocks (kv/kv_cache.h), those that hold keys.
  const Bf16* v[kChunkTokens / kBlock];  ///< V parts. Tokens from `keys` on are zero, those before it finite where some line may
                                         ///< not see them.
  const Bf16* next;                      ///< What is read after this task: worth fetching meanwhile.
  int anchors;                 ///< The first so many blocks are read as planes, not as k and v: all lines see all of them.
  const AnchorHead* anchor_k;  ///< [anchors + kPlanesAhead]: behind the task's own what is read after it, or any: worth fetching.
  const AnchorHead* anchor_v;  ///< [anchors]
  int keys;                    ///< Keys seen by the line that sees most, 1 … kChunkTokens.
  int lines;                   ///< 1 … kTileLines.
  const int* visible;          ///< [lines] keys that each line sees, 0 … keys.
  const Bf16* q;               ///< [lines rounded up to 16][dim], zero beyond the lines and the head_dim.
  int dim;                     ///< Stored head_dim, a multiple of 32.
  int head_dim;                ///< The model's, which is what planes have scales of.
  float scale;                 ///< Of the scores.

  float* scores;  ///< Scratch [kTileLines][kScoreStride].
  Bf16* weights;  ///< Scratch [kTileLines][kWeightStride].
  Bf16* view;     ///< Scratch [2 · anchors][kBlock · dim] for what is expanded of planes.

  float* maxima;  ///< Out [lines]: largest score, -infinity where nothing is visible.
  float* sums;    ///< Out [lines]: sum of exp(score - maximum), unrounded.
  float* out;     ///< Out [lines rounded up to 16][dim]: Σ BF16(exp(score - maximum)) · V.
};

/// All pointers 64-byte aligned but `visible`, `maxima` and `sums`.
using ChunkKernel = void (*)(const ChunkTask& task);

void chunk_portable(const ChunkTask& task);
void chunk_avx2(const ChunkTask& task);
void chunk_avx512(const ChunkTask& task);
void chunk_amx(const ChunkTask& task);
void chunk_amx_emulated(const ChunkTask& task);  ///< The AMX path with its tiles in C++: for tests where there is no AMX.

}  // namespace lynx::attention
