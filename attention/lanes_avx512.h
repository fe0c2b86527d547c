#pragma once

// What the kernels of the AVX-512 path share: sizes, and pairs of BF16.

#include <immintrin.h>

#include "attention/chunk_kernel.h"

namespace lynx::attention {
namespace {

constexpr int kLanes = 16;
constexpr int kVectorValues = 2 * kLanes;  ///< BF16 values of one register.
constexpr int kLinesAtOnce = 6;            ///< 6 lines × 4 vectors of accumulators leave registers for the operands.
constexpr int kVectorsAtOnce = 4;
constexpr int kPairsOfBlock = kBlock / 2;

[[gnu::always_inline]] inline __m512bh load_pairs(const Bf16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

[[gnu::always_inline]] inline __m512bh broadcast_pair(const Bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

}  // namespace
}  // namespace lynx::attention
