// Tiles of 16 lines. Scores: [16 lines][32 channels] · [32 channels][16 keys]; output: [16 lines][32 keys] · [32 keys][16
// channels]. The cache's layout is the right-hand tiles' already.

#include "attention/chunk_kernel.h"
#include "attention/softmax_avx512.h"
#include "device/amx_tiles.h"

namespace lynx::attention {
namespace {

// Tiles 0–3 accumulate, 4 is the left, 5 and 6 are right operands in turn.
constexpr int kLeft = 4;
constexpr int kRight = 5;
constexpr int kOtherRight = 6;
constexpr int kTileValues = kTileRows * kTileK;  ///< BF16 values of a right-hand tile.

/// Into the L2 cache, `count` right-hand tiles that lie `stride` values apart.
[[gnu::always_inline]] inline void fetch(const Bf16* right, int stride, int count) {
  for (int t = 0; t < count; ++t) {
    for (int row = 0; row < kTileRows; ++row) _mm_prefetch(right + t * stride + row * kTileK, _MM_HINT_T1);
  }
}

/// tiles[0 … 3] += left · four right-hand tiles that lie `stride` values apart.
template <class Tiles>
[[gnu::always_inline]] inline void dot_four(Tiles& tiles, const Bf16* right, int stride) {
  tiles.template load<kRight>(right, kTileRowBytes);
  tiles.template load<kOtherRight>(right + stride, kTileRowBytes);
  tiles.template dot<0, kLeft, kRight>();
  tiles.template load<kRight>(right + 2 * stride, kTileRowBytes);
  tiles.template dot<1, kLeft, kOtherRight>();
  tiles.template load<kOtherRight>(right + 3 * stride, kTileRowBytes);
  tiles.template dot<2, kLeft, kRight>();
  tiles.template dot<3, kLeft, kOtherRight>();
}

template <class Tiles>
[[gnu::always_inline]] inline void dot_two(Tiles& tiles, const Bf16* right, int stride) {
  tiles.template load<kRight>(right, kTileRowBytes);
  tiles.template load<kOtherRight>(right + stride, kTileRowBytes);
  tiles.template dot<0, kLeft, kRight>();
  tiles.template dot<1, kLeft, kOtherRight>();
}

template <class Tiles>
[[gnu::always_inline]] inline void zero_four(Tiles& tiles) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
}

/// Scores of 16 lines against the keys of all blocks.
template <class Tiles>
void score_tiles(Tiles& tiles, const ChunkTask& task, int first) {
  const int blocks = (task.keys + kBlock - 1) / kBlock;
  const int group_values = kTileRows * task.dim;  // 16 keys.
  for (int b = 0; b < blocks; ++b) {
    zero_four(tiles);
    for (int step = 0; step < task.dim / kTileK; ++step) {
      tiles.template load<kLeft>(task.q + first * task.dim + step * kTileK, static_cast<unsigned>(task.dim) * sizeof(Bf16));
      dot_four(tiles, task.k[b] + step * kTileValues, group_values);
      if (first == 0) fetch((b + 1 < blocks ? task.k[b + 1] : task.v[0]) + step * kTileValues, group_values, 4);
    }
    float* out = task.scores + first * kScoreStride + b * kBlock;
    constexpr unsigned kStrideBytes = kScoreStride * sizeof(float);
    tiles.template store<0>(out, kStrideBytes);
    tiles.template store<1>(out + 16, kStrideBytes);
    tiles.template store<2>(out + 32, kStrideBytes);
    tiles.template store<3>(out + 48, kStrideBytes);
  }
}

/// Output of 16 lines: channels [16 · group, 16 · group + 64), or 32 channels for the last two groups.
template <class Tiles, bool four>
void weigh_tiles(Tiles& tiles, const ChunkTask& task, int first, int group) {
  constexpr int kGroupValues = 2 * kTileValues;  // 16 channels of a block.
  zero_four(tiles);
  const int steps = (task.keys + kTileK - 1) / kTileK;
  for (int step = 0; step < steps; ++step) {
    tiles.template load<kLeft>(task.weights + first * kWeightStride + step * kTileK, kWeightStride * sizeof(Bf16));
    const int offset = group * kGroupValues + step % 2 * kTileValues;
    const Bf16* v = task.v[step / 2] + offset;
    if (first == 0) fetch((step + 2 < steps ? task.v[step / 2 + 1] : task.next) + offset, kGroupValues, four ? 4 : 2);
    if constexpr (four) {
      dot_four(tiles, v, kGroupValues);
    } else {
      dot_two(tiles, v, kGroupValues);
    }
  }
  float* out = task.out + first * task.dim + group * kTileRows;
  const unsigned stride_bytes = static_cast<unsigned>(task.dim) * sizeof(float);
  tiles.template store<0>(out, stride_bytes);
  tiles.template store<1>(out + 16, stride_bytes);
  if constexpr (four) {
    tiles.template store<2>(out + 32, stride_bytes);
    tiles.template store<3>(out + 48, stride_bytes);
  }
}

template <class Tiles>
void chunk_tiles(const ChunkTask& task) {
  if (task.anchors > 0) return chunk_avx512(task);  // Reads planes in place; tiles would need them expanded.
  Tiles tiles;
  const int groups = task.dim / kTileRows;  // Even.
  for (int first = 0; first < task.lines; first += kTileRows) {
    score_tiles(tiles, task, first);
    const int end = first + kTileRows < task.lines ? first + kTileRows : task.lines;
    for (int line = first; line < end; ++line) softmax_line(task, line);
    int group = 0;
    for (; groups - group >= 4; group += 4) weigh_tiles<Tiles, true>(tiles, task, first, group);
    if (group < groups) weigh_tiles<Tiles, false>(tiles, task, first, group);
  }
}

}  // namespace

void chunk_amx(const ChunkTask& task) {
  chunk_tiles<AmxTiles>(task);
}

void chunk_amx_emulated(const ChunkTask& task) {
  chunk_tiles<EmulatedTiles>(task);
}

}  // namespace lynx::attention
