#pragma once

// exp_f32 (device/exp_math.h) on eight lanes, same bits. For translation units compiled for AVX2.

#include <immintrin.h>

#include "device/exp_math.h"

namespace lynx {
namespace {

[[gnu::always_inline]] inline __m256 exp_avx2(__m256 x) {
  const __m256 round = _mm256_set1_ps(kExpRound);
  const __m256 clamped = _mm256_min_ps(_mm256_set1_ps(kExpHighest), _mm256_max_ps(_mm256_set1_ps(kExpLowest), x));
  const __m256 shifted = _mm256_add_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(kExpLog2E)), round);
  const __m256 n = _mm256_sub_ps(shifted, round);
  const __m256 r = _mm256_sub_ps(_mm256_sub_ps(clamped, _mm256_mul_ps(n, _mm256_set1_ps(kExpLn2High))),
                                 _mm256_mul_ps(n, _mm256_set1_ps(kExpLn2Low)));
  __m256 p = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(kExpC6), r), _mm256_set1_ps(kExpC5));
  p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(kExpC4));
  p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(kExpC3));
  p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(kExpC2));
  const __m256 mantissa = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r), _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(round));
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 scale_a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 scale_b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(exponent, half), bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(mantissa, scale_a), scale_b);
}

}  // namespace
}  // namespace lynx
