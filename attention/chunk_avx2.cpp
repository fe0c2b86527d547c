// As chunk_avx512.cpp, on eight lanes and with FP32 fused multiply-adds: a BF16 value is the upper half of an FP32 one, so the two
// of a pair are one shift and one mask away.

#include <immintrin.h>

#include "attention/anchors_avx2.h"
#include "attention/chunk_kernel.h"
#include "attention/lanes_avx2.h"
#include "device/exp_avx2.h"

namespace lynx::attention {
namespace {

template <int lines>
void score_lines(const ChunkTask& task, int first) {
  alignas(32) float q[lines * kLargestDim];
  for (int i = 0; i < lines * task.dim; ++i) q[i] = bf16_to_float(task.q[first * task.dim + i]);
  for (int block = 0; block < task.anchors; ++block) score_anchors<lines>(task, first, block, q);
  const int groups = (task.keys + 15) / 16;
  for (int g = task.anchors * 4; g < groups; ++g) {
    const int offset = g % 4 * 16 * task.dim;
    const Bf16* next = (g / 4 * kBlock + kBlock < task.keys ? task.k[g / 4 + 1] : task.v[0]) + offset;
    dot_tile<Bf16Rows, lines>(q, task.dim, task.k[g / 4] + offset, next, task.dim / 2, task.scores + first * kScoreStride + g * 16,
                              kScoreStride, kZeros);
  }
}

[[gnu::always_inline]] inline float max_lanes(__m256 x) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

/// Rounds to BF16 (ties to even), as FP32; NaN stays NaN.
[[gnu::always_inline]] inline __m256 round_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i cut = _mm256_and_si256(rounded, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
  return _mm256_blendv_ps(_mm256_castsi256_ps(cut), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/// Turns a line's scores into its rounded weights in place, zero for keys beyond the line's own.
void softmax_line(const ChunkTask& task, int line) {
  float* scores = task.scores + line * kScoreStride;
  const int visible = task.visible[line];
  const int groups = (task.keys + 15) / 16;
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  const __m256 scale = _mm256_set1_ps(task.scale);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

  __m256 largest = lowest;
  for (int i = 0; i < groups * 16; i += kLanes) {
    const __m256 seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(visible - i), lane));
    const __m256 score = _mm256_blendv_ps(lowest, _mm256_mul_ps(_mm256_load_ps(scores + i), scale), seen);
    _mm256_store_ps(scores + i, score);
    largest = _mm256_max_ps(largest, score);
  }
  const float maximum = max_lanes(largest);
  // With nothing above -infinity every weight is exp(-infinity - 0) = 0.
  const __m256 shift = _mm256_set1_ps(maximum == -__builtin_inff() ? 0.0f : maximum);
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int i = 0; i < groups * 16; i += kLanes) {
    const __m256 seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(visible - i), lane));
    const __m256 weight = _mm256_and_ps(exp_avx2(_mm256_sub_ps(_mm256_load_ps(scores + i), shift)), seen);
    sum[i / kLanes % 2] = _mm256_add_ps(sum[i / kLanes % 2], weight);
    _mm256_store_ps(scores + i, round_to_bf16(weight));
  }
  task.maxima[line] = maximum;
  task.sums[line] = sum_lanes(sum[0], sum[1]);
}

template <int lines>
void weigh_lines(const ChunkTask& task, int first) {
  if (task.anchors > 0) weigh_anchors<lines>(task, first);
  const int pairs = (task.keys + 1) / 2;
  for (int begin = task.anchors * kPairsOfBlock; begin < pairs; begin += kPairsOfBlock) {
    const int count = pairs - begin < kPairsOfBlock ? pairs - begin : kPairsOfBlock;
    const float* weights = task.scores + first * kScoreStride + 2 * begin;
    for (int channel = 0; channel < task.dim; channel += 16) {
      const int block = begin / kPairsOfBlock;
      const Bf16* next = count < pairs - begin ? task.v[block + 1] : task.next;
      dot_tile<Bf16Rows, lines>(weights, kScoreStride, task.v[block] + channel * kBlock, next + channel * kBlock, count,
                                task.out + first * task.dim + channel, task.dim, begin == 0 ? kZeros : nullptr);
    }
  }
}

template <int lines>
void attend_lines(const ChunkTask& task, int first) {
  score_lines<lines>(task, first);
  for (int l = first; l < first + lines; ++l) softmax_line(task, l);
  weigh_lines<lines>(task, first);
}

}  // namespace

void chunk_avx2(const ChunkTask& task) {
  int line = 0;
  for (; task.lines - line >= kLinesAtOnce; line += kLinesAtOnce) attend_lines<kLinesAtOnce>(task, line);
  switch (task.lines - line) {
    case 1: return attend_lines<1>(task, line);
    case 2: return attend_lines<2>(task, line);
    case 3: return attend_lines<3>(task, line);
    default: return;
  }
}

}  // namespace lynx::attention
