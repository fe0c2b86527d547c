#pragma once

// What the kernels of the AVX2 path share: pairs as FP32, and the tile that both products are made of.

#include <immintrin.h>

#include "attention/chunk_kernel.h"

namespace lynx::attention {
namespace {

constexpr int kLanes = 8;
constexpr int kLinesAtOnce = 4;
constexpr int kPairsOfBlock = kBlock / 2;

struct Pair {
  __m256 even;
  __m256 odd;
};

/// Rows of 16 pairs of BF16: the inner rows of K's and V's layout.
struct Bf16Rows {
  using Value = Bf16;
  static constexpr int kValues = 32;  ///< Of a row.

  [[gnu::always_inline]] static Pair load(const Bf16* row, int half) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + half * kValues / 2));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
  }
};

/// The same rows in an Anchor plane: 16 pairs of codes.
struct CodeRows {
  using Value = std::uint8_t;
  static constexpr int kValues = 16;

  [[gnu::always_inline]] static Pair load(const std::uint8_t* row, int half) {
    const __m256i pairs = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + half * kValues / 2)));
    return {_mm256_cvtepi32_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(15))), _mm256_cvtepi32_ps(_mm256_srli_epi32(pairs, 4))};
  }
};

/// sum += left[0] · pair.even, then left[1] · pair.odd.
[[gnu::always_inline]] inline __m256 add_pair(__m256 sum, const float* left, Pair pair) {
  sum = _mm256_fmadd_ps(_mm256_broadcast_ss(left), pair.even, sum);
  return _mm256_fmadd_ps(_mm256_broadcast_ss(left + 1), pair.odd, sum);
}

/// `lines` × 16 outputs: left is [lines][left_stride] FP32, right [pairs] rows. Adds to out [lines][out_stride], or begins with
/// `start` [lines] if that is not null. `next` is what will be in right's place afterwards: fetched meanwhile.
template <class Rows, int lines>
[[gnu::always_inline]] inline void dot_tile(const float* left, int left_stride, const typename Rows::Value* right,
                                            const typename Rows::Value* next, int pairs, float* out, int out_stride,
                                            const float* start) {
  __m256 sum[lines][2];
#pragma GCC unroll 4
  for (int l = 0; l < lines; ++l) {
    sum[l][0] = start != nullptr ? _mm256_broadcast_ss(start + l) : _mm256_load_ps(out + l * out_stride);
    sum[l][1] = start != nullptr ? _mm256_broadcast_ss(start + l) : _mm256_load_ps(out + l * out_stride + kLanes);
  }
  for (int p = 0; p < pairs; ++p) {
    const Pair low = Rows::load(right + p * Rows::kValues, 0);
    const Pair high = Rows::load(right + p * Rows::kValues, 1);
    if (Rows::kValues * sizeof(*right) >= 64 || p % 4 == 0) _mm_prefetch(next + p * Rows::kValues, _MM_HINT_T1);
#pragma GCC unroll 4
    for (int l = 0; l < lines; ++l) {
      sum[l][0] = add_pair(sum[l][0], left + l * left_stride + 2 * p, low);
      sum[l][1] = add_pair(sum[l][1], left + l * left_stride + 2 * p, high);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < lines; ++l) {
    _mm256_store_ps(out + l * out_stride, sum[l][0]);
    _mm256_store_ps(out + l * out_stride + kLanes, sum[l][1]);
  }
}

[[gnu::always_inline]] inline float sum_lanes(__m256 a, __m256 b) {
  const __m256 eight = _mm256_add_ps(a, b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

constexpr float kZeros[kLinesAtOnce] = {};

}  // namespace
}  // namespace lynx::attention
