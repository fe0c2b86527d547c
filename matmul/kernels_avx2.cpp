// AVX2 and FMA: 8 chains an output. BF16 pairs are split into FP32 by a shift and a mask. 4- and 8-bit weights become BF16 when
// they are packed: rounding them to BF16 in AVX2 arithmetic costs more than reading them.

#include <immintrin.h>

#include "matmul/lane_kernels.h"

namespace lynx::matmul {
namespace {

struct Avx2Lanes {
  using Acc = __m256;
  using Step = __m256i;
  static constexpr int kStep = 16;
  static constexpr int kBlockRows = 2;  // 8 accumulators, the rows' halves and one column's fill the 16 registers.
  static constexpr int kBlockColumns = 4;
  static constexpr int kSingleRowColumns = 4;

  [[gnu::always_inline]] static Acc zero() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static Step load(const Bf16* source) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
  }
  [[gnu::always_inline]] static __m256 even(Step pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
  [[gnu::always_inline]] static __m256 odd(Step pairs) {
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  [[gnu::always_inline]] static Acc dot(Acc acc, Step x, Step w) {
    return _mm256_fmadd_ps(odd(x), odd(w), _mm256_fmadd_ps(even(x), even(w), acc));
  }

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void reduce(const Acc (&acc)[kRows][kColumns], float* out, std::size_t stride) {
    LYNX_UNROLL
    for (int i = 0; i < kRows; ++i) {
      LYNX_UNROLL
      for (int j = 0; j < kColumns; j += 2) {
        const __m256 pairs = _mm256_hadd_ps(acc[i][j], acc[i][j + 1]);
        const __m256 quads = _mm256_hadd_ps(pairs, pairs);  // Both sums in each half.
        const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1));
        _mm_storel_pi(reinterpret_cast<__m64*>(out + static_cast<std::size_t>(i) * stride + j), sums);
      }
    }
  }
};

void multiply_panel(const PanelTask& task) {
  multiply_with<Avx2Lanes>(Bf16Loader<Avx2Lanes>(task.panel), task);
}

constexpr Kernels kKernels{Bf16Order::kStrips, false, 0, multiply_panel, nullptr, nullptr};

}  // namespace

const Kernels& avx2_kernels() {
  return kKernels;
}

}  // namespace lynx::matmul
