// Scores: lanes are 16 keys, one chain over the channel pairs. Output: lanes are 16 channels, one chain over the key pairs.

#include <immintrin.h>

#include "attention/chunk_kernel.h"
#include "attention/softmax_avx512.h"

namespace lynx::attention {
namespace {

constexpr int kLanes = 16;
constexpr int kVectorValues = 2 * kLanes;  ///< BF16 values of one register.
constexpr int kLinesAtOnce = 6;            ///< 6 lines × 4 vectors of accumulators leave registers for the operands.
constexpr int kVectorsAtOnce = 4;

[[gnu::always_inline]] inline __m512bh load_pairs(const Bf16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

[[gnu::always_inline]] inline __m512bh broadcast_pair(const Bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

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

/// Scores of `lines` lines from `first` on against all keys of the chunk, rounded up to 16.
template <int lines>
void score_lines(const ChunkTask& task, int first) {
  const Bf16* q = task.q + first * task.dim;
  const int groups = (task.keys + kLanes - 1) / kLanes;
  constexpr int kGroupsOfBlock = kBlock / kLanes;
  const int last = (groups - 1) / kGroupsOfBlock;
  for (int g = 0; g < groups;) {
    const int block = g / kGroupsOfBlock;
    const int offset = g % kGroupsOfBlock * kLanes * task.dim;
    const Bf16* k = task.k[block] + offset;
    const Bf16* next = (block < last ? task.k[block + 1] : task.v[0]) + offset;
    float* out = task.scores + first * kScoreStride + g * kLanes;
    if (groups - g >= kVectorsAtOnce) {
      score_tile<lines, kVectorsAtOnce>(q, k, next, task.dim, out);
      g += kVectorsAtOnce;
    } else {
      score_tile<lines, 1>(q, k, next, task.dim, out);
      g += 1;
    }
  }
}

/// Output channels [16 · group, 16 · (group + vectors)) of `lines` lines from `first` on.
template <int lines, int vectors>
[[gnu::always_inline]] inline void weigh_tile(const ChunkTask& task, int first, int group) {
  constexpr int kPairsOfBlock = kBlock / 2;
  const Bf16* weights = task.weights + first * kWeightStride;
  __m512 sum[lines][vectors];
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) sum[l][c] = _mm512_setzero_ps();
  }
  const int pairs = (task.keys + 1) / 2;
  for (int begin = 0; begin < pairs; begin += kPairsOfBlock) {
    const int count = pairs - begin < kPairsOfBlock ? pairs - begin : kPairsOfBlock;
    const int block = begin / kPairsOfBlock;
    const Bf16* v = task.v[block] + group * kPairsOfBlock * kVectorValues;
    const Bf16* next = (begin + kPairsOfBlock < pairs ? task.v[block + 1] : task.next) + group * kPairsOfBlock * kVectorValues;
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
        const __m512bh weight = broadcast_pair(weights + l * kWeightStride + 2 * (begin + p));
#pragma GCC unroll 4
        for (int c = 0; c < vectors; ++c) sum[l][c] = _mm512_dpbf16_ps(sum[l][c], weight, values[c]);
      }
    }
  }
#pragma GCC unroll 6
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) _mm512_store_ps(task.out + (first + l) * task.dim + (group + c) * kLanes, sum[l][c]);
  }
}

template <int lines>
void weigh_lines(const ChunkTask& task, int first) {
  const int groups = task.dim / kLanes;  // Even.
  int group = 0;
  for (; groups - group >= kVectorsAtOnce; group += kVectorsAtOnce) weigh_tile<lines, kVectorsAtOnce>(task, first, group);
  if (group < groups) weigh_tile<lines, 2>(task, first, group);
}

template <int lines>
void attend_lines(const ChunkTask& task, int first) {
  score_lines<lines>(task, first);
  for (int l = first; l < first + lines; ++l) softmax_line(task, l);
  weigh_lines<lines>(task, first);
}

}  // namespace

void chunk_avx512(const ChunkTask& task) {
  int line = 0;
  for (; task.lines - line >= kLinesAtOnce; line += kLinesAtOnce) attend_lines<kLinesAtOnce>(task, line);
  switch (task.lines - line) {
    case 1: return attend_lines<1>(task, line);
    case 2: return attend_lines<2>(task, line);
    case 3: return attend_lines<3>(task, line);
    case 4: return attend_lines<4>(task, line);
    case 5: return attend_lines<5>(task, line);
    default: return;
  }
}

}  // namespace lynx::attention
