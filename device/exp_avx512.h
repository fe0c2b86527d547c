#pragma once

// exp_f32 (device/exp_math.h) on sixteen lanes, same bits. For translation units compiled for AVX-512.

#include <immintrin.h>

#include "device/exp_math.h"

namespace lynx {
namespace {

[[gnu::always_inline]] inline __m512 exp_avx512(__m512 x) {
  const __m512 round = _mm512_set1_ps(kExpRound);
  const __m512 clamped = _mm512_min_ps(_mm512_set1_ps(kExpHighest), _mm512_max_ps(_mm512_set1_ps(kExpLowest), x));
  const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(kExpLog2E)), round);
  const __m512 n = _mm512_sub_ps(shifted, round);
  const __m512 r = _mm512_sub_ps(_mm512_sub_ps(clamped, _mm512_mul_ps(n, _mm512_set1_ps(kExpLn2High))),
                                 _mm512_mul_ps(n, _mm512_set1_ps(kExpLn2Low)));
  __m512 p = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(kExpC6), r), _mm512_set1_ps(kExpC5));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpC4));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpC3));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(kExpC2));
  const __m512 mantissa = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), _mm512_set1_ps(1.0f));
  // 2^n at once: VSCALEFPS rounds once, as the two factors of the scalar form do.
  return _mm512_scalef_ps(mantissa, n);
}

}  // namespace
}  // namespace lynx
