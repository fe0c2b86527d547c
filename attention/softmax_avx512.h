#pragma once

// From the scores of one line to its weights, for the AVX-512 and AMX paths.

#include <immintrin.h>

#include "attention/chunk_kernel.h"
#include "device/exp_avx512.h"

namespace lynx::attention {
namespace {

/// Lanes i + i+8, then +4, +2, +1.
[[gnu::always_inline]] inline float sum_lanes(__m512 x) {
  x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0x4e));
  x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1));
  x = _mm512_add_ps(x, _mm512_permute_ps(x, 0x4e));
  x = _mm512_add_ps(x, _mm512_permute_ps(x, 0xb1));
  return _mm512_cvtss_f32(x);
}

[[gnu::always_inline]] inline float max_lanes(__m512 x) {
  x = _mm512_max_ps(x, _mm512_shuffle_f32x4(x, x, 0x4e));
  x = _mm512_max_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1));
  x = _mm512_max_ps(x, _mm512_permute_ps(x, 0x4e));
  x = _mm512_max_ps(x, _mm512_permute_ps(x, 0xb1));
  return _mm512_cvtss_f32(x);
}

/// Keys beyond the line's own get the weight zero, up to the next multiple of 32 keys.
inline void softmax_line(const ChunkTask& task, int line) {
  constexpr int kLanes = 16;
  const float* scores = task.scores + line * kScoreStride;
  Bf16* weights = task.weights + line * kWeightStride;
  const __m512 scale = _mm512_set1_ps(task.scale);
  const int visible = task.visible[line];
  const int whole = visible / kLanes;
  const __mmask16 rest = static_cast<__mmask16>((1u << (visible % kLanes)) - 1);
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());

  // The products with the scale are formed twice, here and below: cheaper than storing them.
  __m512 max_a = lowest;
  __m512 max_b = _mm512_mask_mul_ps(lowest, rest, _mm512_load_ps(scores + whole * kLanes), scale);
  int g = 0;
  for (; g + 1 < whole; g += 2) {
    max_a = _mm512_max_ps(max_a, _mm512_mul_ps(_mm512_load_ps(scores + g * kLanes), scale));
    max_b = _mm512_max_ps(max_b, _mm512_mul_ps(_mm512_load_ps(scores + (g + 1) * kLanes), scale));
  }
  if (g < whole) max_a = _mm512_max_ps(max_a, _mm512_mul_ps(_mm512_load_ps(scores + g * kLanes), scale));
  const float maximum = max_lanes(_mm512_max_ps(max_a, max_b));
  // With nothing above -infinity every weight is exp(-infinity - 0) = 0.
  const __m512 shift = _mm512_set1_ps(maximum == -__builtin_inff() ? 0.0f : maximum);

  __m512 sum = _mm512_setzero_ps();
  for (g = 0; g < whole; ++g) {
    const __m512 weight = exp_avx512(_mm512_sub_ps(_mm512_mul_ps(_mm512_load_ps(scores + g * kLanes), scale), shift));
    sum = _mm512_add_ps(sum, weight);
    _mm256_store_si256(reinterpret_cast<__m256i*>(weights + g * kLanes), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  }
  const int groups = (task.keys + 31) / 32 * 2;
  if (rest != 0) {
    const __m512 score = _mm512_mask_mul_ps(lowest, rest, _mm512_load_ps(scores + g * kLanes), scale);
    const __m512 weight = _mm512_maskz_mov_ps(rest, exp_avx512(_mm512_sub_ps(score, shift)));
    sum = _mm512_add_ps(sum, weight);
    _mm256_store_si256(reinterpret_cast<__m256i*>(weights + g * kLanes), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
    ++g;
  }
  for (; g < groups; ++g) _mm256_store_si256(reinterpret_cast<__m256i*>(weights + g * kLanes), _mm256_setzero_si256());
  task.maxima[line] = maximum;
  task.sums[line] = sum_lanes(sum);
}

}  // namespace
}  // namespace lynx::attention
