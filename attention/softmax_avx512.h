#pragma once

// From the scores of one line to its weights, for the AVX-512 and AMX paths.

#include <immintrin.h>

#include "attention/chunk_kernel.h"
#include "attention/lanes_avx512.h"
#include "device/exp_math.h"

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

/// 2^t for t <= 0, within 1.6e-7 of it; a NaN stays a NaN. Own minimax fit of (2^f - 1) / f on |f| <= 1/2.
[[gnu::always_inline]] inline __m512 exp2_avx512(__m512 t) {
  const __m512 clamped = _mm512_max_ps(_mm512_set1_ps(-150.0f), t);  // 2^-150 is 0 once rounded; the operands' order keeps NaN.
  const __m512 n = _mm512_roundscale_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(clamped, n);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.00132647018394f), f, _mm512_set1_ps(0.00967153390259f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.0555073399454f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24022241761f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69314697736f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

/// Sixteen lanes of the softmax.
struct Softmax {
  __m512 scale;  ///< To base 2: the call's scale · log2(e).
  __m512 shift;  ///< The line's maximum, so scaled.
  __m512 sum;

  /// Weights of sixteen scores: added to the sum, rounded and stored. No fused multiply-subtract: the maximum minus itself must be
  /// 0, however large.
  [[gnu::always_inline]] void weigh(__m512 scores, __mmask16 seen, Bf16* weights) {
    const __m512 t = _mm512_sub_ps(_mm512_mul_ps(scores, scale), shift);
    const __m512 weight = _mm512_maskz_mov_ps(seen, exp2_avx512(t));
    sum = _mm512_add_ps(sum, weight);
    _mm256_store_si256(reinterpret_cast<__m256i*>(weights), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  }
};

/// Keys beyond the line's own get the weight zero, up to the next multiple of 32 keys.
inline void softmax_line(const ChunkTask& task, int line) {
  constexpr __mmask16 kAll = 0xffff;
  const float* scores = task.scores + line * kScoreStride;
  Bf16* weights = task.weights + line * kWeightStride;
  const int visible = task.visible[line];
  const int whole = visible / kLanes;
  const __mmask16 rest = static_cast<__mmask16>((1u << (visible % kLanes)) - 1);
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());

  __m512 max_a = lowest;
  __m512 max_b = _mm512_mask_load_ps(lowest, rest, scores + whole * kLanes);
  int g = 0;
  for (; g + 1 < whole; g += 2) {
    max_a = _mm512_max_ps(max_a, _mm512_load_ps(scores + g * kLanes));
    max_b = _mm512_max_ps(max_b, _mm512_load_ps(scores + (g + 1) * kLanes));
  }
  if (g < whole) max_a = _mm512_max_ps(max_a, _mm512_load_ps(scores + g * kLanes));
  const float maximum = max_lanes(_mm512_max_ps(max_a, max_b));
  const float scale = task.scale * kExpLog2E;
  // With nothing above -infinity every weight is 2^(-infinity - 0) = 0.
  const float shift = maximum == -__builtin_inff() ? 0.0f : maximum * scale;

  Softmax softmax = {_mm512_set1_ps(scale), _mm512_set1_ps(shift), _mm512_setzero_ps()};
  for (g = 0; g < whole; ++g) softmax.weigh(_mm512_load_ps(scores + g * kLanes), kAll, weights + g * kLanes);
  if (rest != 0) {
    softmax.weigh(_mm512_mask_load_ps(lowest, rest, scores + g * kLanes), rest, weights + g * kLanes);
    ++g;
  }
  const int groups = (task.keys + 31) / 32 * 2;
  for (; g < groups; ++g) _mm256_store_si256(reinterpret_cast<__m256i*>(weights + g * kLanes), _mm256_setzero_si256());
  task.maxima[line] = maximum * task.scale;
  task.sums[line] = sum_lanes(softmax.sum);
}

}  // namespace
}  // namespace lynx::attention
