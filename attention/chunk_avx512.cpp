// Scores: lanes are 16 keys, one chain over the channel pairs. Output: lanes are 16 channels, one chain over the key pairs.

#include <immintrin.h>

#include "attention/anchors_avx512.h"
#include "attention/chunk_kernel.h"
#include "attention/lanes_avx512.h"
#include "attention/softmax_avx512.h"

namespace lynx::attention {
namespace {

/// Scores of `lines` lines against `vectors` groups of 16 keys: k points at the first group, `out` at the first line's first key.
/// `next` is what will be in k's place afterwards: fetched meanwhile.
template <int lines, int vectors>
[[gnu::always_inline]] inline void score_tile(const Bf16* q, const Bf16* k, const Bf16* next, int dim, float* out) {
  const int pairs = dim / 2;
  __m512 sum[lines][vectors];
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int g = 0; g < vectors; ++g) sum[l][g] = _mm512_setzero_ps();
  }
  for (int p = 0; p < pairs; ++p) {
    __m512bh keys[vectors];
#pragma GCC unroll 4
    for (int g = 0; g < vectors; ++g) {
      const int offset = (g * pairs + p) * kVectorValues;
      keys[g] = load_pairs(k + offset);
      _mm_prefetch(next + offset, _MM_HINT_T1);
    }
#pragma GCC unroll 6
    for (int l = 0; l < lines; ++l) {
      const __m512bh query = broadcast_pair(q + l * dim + 2 * p);
#pragma GCC unroll 4
      for (int g = 0; g < vectors; ++g) sum[l][g] = _mm512_dpbf16_ps(sum[l][g], query, keys[g]);
    }
  }
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int g = 0; g < vectors; ++g) _mm512_store_ps(out + l * kScoreStride + g * kLanes, sum[l][g]);
  }
}

/// Scores of `lines` lines from `first` on against the keys of one block, rounded up to 16.
template <int lines>
void score_block(const ChunkTask& task, int first, int block) {
  const Bf16* q = task.q + first * task.dim;
  const Bf16* next = (block + 1) * kBlock < task.keys ? task.k[block + 1] : task.v[0];
  float* out = task.scores + first * kScoreStride + block * kBlock;
  const int groups = (task.keys - block * kBlock + kLanes - 1) / kLanes;
  if (groups >= kVectorsAtOnce) return score_tile<lines, kVectorsAtOnce>(q, task.k[block], next, task.dim, out);
  for (int g = 0; g < groups; ++g) {
    const int offset = g * kLanes * task.dim;
    score_tile<lines, 1>(q, task.k[block] + offset, next + offset, task.dim, out + g * kLanes);
  }
}

/// Adds the blocks [begin, end) to the output channels [16 · group, 16 · (group + vectors)) of `lines` lines from `first` on.
template <int lines, int vectors>
[[gnu::always_inline]] inline void weigh_tile(const ChunkTask& task, int first, int group, int begin, int end) {
  const Bf16* weights = task.weights + first * kWeightStride;
  float* out = task.out + first * task.dim + group * kLanes;
  __m512 sum[lines][vectors];
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) {
      sum[l][c] = begin == 0 ? _mm512_setzero_ps() : _mm512_load_ps(out + l * task.dim + c * kLanes);
    }
  }
  const int pairs = (task.keys + 1) / 2;
  for (int block = begin; block < end; ++block) {
    const int first_pair = block * kPairsOfBlock;
    const int count = pairs - first_pair < kPairsOfBlock ? pairs - first_pair : kPairsOfBlock;
    const Bf16* v = task.v[block] + group * kPairsOfBlock * kVectorValues;
    const Bf16* next = (count < pairs - first_pair ? task.v[block + 1] : task.next) + group * kPairsOfBlock * kVectorValues;
    for (int p = 0; p < count; ++p) {
      __m512bh values[vectors];
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        const int offset = (c * kPairsOfBlock + p) * kVectorValues;
        values[c] = load_pairs(v + offset);
        _mm_prefetch(next + offset, _MM_HINT_T1);
      }
#pragma GCC unroll 6
      for (int l = 0; l < lines; ++l) {
        const __m512bh weight = broadcast_pair(weights + l * kWeightStride + 2 * (first_pair + p));
#pragma GCC unroll 4
        for (int c = 0; c < vectors; ++c) sum[l][c] = _mm512_dpbf16_ps(sum[l][c], weight, values[c]);
      }
    }
  }
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) _mm512_store_ps(out + l * task.dim + c * kLanes, sum[l][c]);
  }
}

template <int lines>
void weigh_blocks(const ChunkTask& task, int first, int begin, int end) {
  const int groups = task.dim / kLanes;  // Even.
  int group = 0;
  for (; groups - group >= kVectorsAtOnce; group += kVectorsAtOnce)
    weigh_tile<lines, kVectorsAtOnce>(task, first, group, begin, end);
  if (group < groups) weigh_tile<lines, 2>(task, first, group, begin, end);
}

template <int count>
struct Lines {
  static constexpr int value = count;
};

/// Calls body(Lines<n>, first line) for groups of kLinesAtOnce lines and for the rest.
template <class Body>
[[gnu::always_inline]] inline void for_each_group(int lines, Body body) {
  int first = 0;
  for (; lines - first >= kLinesAtOnce; first += kLinesAtOnce) body(Lines<kLinesAtOnce>(), first);
  switch (lines - first) {
    case 1: return body(Lines<1>(), first);
    case 2: return body(Lines<2>(), first);
    case 3: return body(Lines<3>(), first);
    case 4: return body(Lines<4>(), first);
    case 5: return body(Lines<5>(), first);
    default: return;
  }
}

/// As for_each_group(), in larger groups as long as there are that many: what planes cost to unpack is shared by more.
template <class Body>
[[gnu::always_inline]] inline void for_each_anchor_group(int lines, Body body) {
  constexpr int kMany = 2 * kLinesAtOnce;
  int begin = 0;
  for (; lines - begin >= kMany; begin += kMany) body(Lines<kMany>(), begin);
  for_each_group(lines - begin, [&](auto group, int first) { body(group, begin + first); });
}

void score_planes(const ChunkTask& task) {
  if (task.anchor_k[0].sinks != nullptr) {
    write_sinks(task);
    const ChunkTask sinks = sink_task(task);
    for_each_group(task.lines, [&](auto lines, int first) { score_block<lines.value>(sinks, first, 0); });
  }
  for (int block = 0; block < task.anchors; ++block) {
    for_each_anchor_group(task.lines, [&](auto lines, int first) { score_anchors<lines.value>(task, first, block); });
  }
}

void weigh_planes(const ChunkTask& task) {
  const bool has_sinks = task.anchor_v[0].sinks != nullptr;
  if (has_sinks) {
    const ChunkTask sinks = sink_task(task);
    for_each_group(task.lines, [&](auto lines, int first) { weigh_blocks<lines.value>(sinks, first, 0, 1); });
  }
  for_each_anchor_group(task.lines, [&](auto lines, int first) { weigh_anchors<lines.value>(task, first, !has_sinks); });
}

}  // namespace

void chunk_avx512(const ChunkTask& task) {
  const int blocks = (task.keys + kBlock - 1) / kBlock;
  if (task.anchors > 0) score_planes(task);
  for (int block = task.anchors; block < blocks; ++block) {
    for_each_group(task.lines, [&](auto lines, int first) { score_block<lines.value>(task, first, block); });
  }
  for (int line = 0; line < task.lines; ++line) softmax_line(task, line);
  if (task.anchors > 0) weigh_planes(task);
  // All lines take a block while it is in the L1 cache; a single group of lines keeps its sums in registers instead.
  const int step = task.lines > kLinesAtOnce ? 1 : blocks;
  for (int block = task.anchors; block < blocks; block += step) {
    const int end = block + step < blocks ? block + step : blocks;
    for_each_group(task.lines, [&](auto lines, int first) { weigh_blocks<lines.value>(task, first, block, end); });
  }
}

}  // namespace lynx::attention
