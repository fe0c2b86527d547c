#pragma once

// AVX512-BF16: an output's 16 chains are the lanes of one register. Shared by the AVX-512 path and by the AMX path's decoding of
// packed weights. For translation units compiled for AVX512-BF16.

#include <immintrin.h>

#include "matmul/lane_kernels.h"

namespace lynx::matmul {
namespace {

struct Avx512Lanes {
  using Acc = __m512;
  using Step = __m512i;
  static constexpr int kStep = 32;
  static constexpr int kBlockRows = 4;
  static constexpr int kBlockColumns = 4;
  static constexpr int kSingleRowColumns = kPanelRows;

  [[gnu::always_inline]] static Acc zero() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static Step load(const Bf16* source) { return _mm512_loadu_si512(source); }
  [[gnu::always_inline]] static void store(Bf16* target, Step values) { _mm512_storeu_si512(target, values); }
  [[gnu::always_inline]] static Acc dot(Acc acc, Step x, Step w) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }

  // The tree adds lanes i and i+8, then i+4, i+2, i+1. Each step folds two registers into one.
  [[gnu::always_inline]] static Acc fold8(Acc a, Acc b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  [[gnu::always_inline]] static Acc fold4(Acc a, Acc b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  [[gnu::always_inline]] static Acc fold2(Acc a, Acc b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  }
  [[gnu::always_inline]] static Acc fold1(Acc a, Acc b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
  }
  /// The sums of 16 registers: q[i] holds, in its 128-bit lane c, what is left of output 4i + c.
  [[gnu::always_inline]] static Acc finish(Acc q0, Acc q1, Acc q2, Acc q3) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(order, fold1(fold2(q0, q1), fold2(q2, q3)));
  }
  [[gnu::always_inline]] static Acc fold_strip(const Acc* acc) { return fold4(fold8(acc[0], acc[1]), fold8(acc[2], acc[3])); }

  template <int kRows>
  [[gnu::always_inline]] static void reduce(const Acc (&acc)[kRows][kStripRows], float* out, std::size_t stride) {
    const Acc first = fold_strip(acc[0]);
    const Acc sums =
        finish(first, kRows > 1 ? fold_strip(acc[kRows > 1 ? 1 : 0]) : first,
               kRows > 2 ? fold_strip(acc[kRows > 2 ? 2 : 0]) : first, kRows > 3 ? fold_strip(acc[kRows > 3 ? 3 : 0]) : first);
    _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
    if constexpr (kRows > 1) _mm_storeu_ps(out + stride, _mm512_extractf32x4_ps(sums, 1));
    if constexpr (kRows > 2) _mm_storeu_ps(out + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
    if constexpr (kRows > 3) _mm_storeu_ps(out + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
  }
  [[gnu::always_inline]] static void reduce(const Acc (&acc)[1][kPanelRows], float* out, std::size_t) {
    const Acc* a = acc[0];
    _mm512_storeu_ps(out, finish(fold_strip(a), fold_strip(a + 4), fold_strip(a + 8), fold_strip(a + 12)));
  }
};

/// Scales (and minima) of a few chunks ahead, widened to FP32 so that an arithmetic instruction can broadcast them from memory.
template <Format format>
class ScaleWindow {
 public:
  static constexpr int kChunks = 64;  ///< K up to 2048 takes one filling a panel.
  static constexpr int kValues = is_int4(format) ? 2 * kPanelRows : kPanelRows;

  [[gnu::always_inline]] void refill(const std::byte* panel, int first, int last) {
    if (first == first_ && last == last_) return;
    first_ = first;
    last_ = last;
    for (int chunk = first; chunk < last; ++chunk) {
      const std::byte* source = panel + static_cast<std::size_t>(chunk) * chunk_bytes(format);
      for (int v = 0; v < kValues; v += kPanelRows) {
        const __m512 wide = has_f32_scales(format)
                                ? _mm512_loadu_ps(reinterpret_cast<const float*>(source) + v)
                                : _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 2 * v)));
        _mm512_store_ps(values_[chunk - first] + v, wide);
      }
    }
  }
  /// The scales of a chunk, and kPanelRows further its minima.
  [[gnu::always_inline]] const float* at(int chunk) const { return values_[chunk - first_]; }

 private:
  int first_ = 0;
  int last_ = 0;
  alignas(64) float values_[kChunks][kValues];
};

/// With few rows of X the weights are read once, at the speed of memory, and the processor's own prefetching falls behind.
/// Prefetching beyond the end of the panel, into the next one, is wanted; beyond the end of the matrix it does no harm.
[[gnu::always_inline]] inline void prefetch_ahead(const std::byte* panel, int chunk, std::size_t bytes) {
  constexpr std::size_t kDistanceBytes = 8192;
  const auto* ahead = reinterpret_cast<const char*>(panel) + static_cast<std::size_t>(chunk) * bytes + kDistanceBytes;
  for (std::size_t line = 0; line < bytes; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
}

/// 4-bit codes: the 16 possible values of a row's group are computed, rounded to BF16, and looked up.
template <Format format>
class Int4Loader {
 public:
  static constexpr int kRefillChunks = ScaleWindow<format>::kChunks;

  explicit Int4Loader(const Panel& panel) : data_(panel.data) {}
  void refill(int first, int last) { window_.refill(data_, first, last); }
  [[gnu::always_inline]] void prefetch(int chunk) const { prefetch_ahead(data_, chunk, chunk_bytes(format)); }

  struct Cursor {
    const std::byte* codes;
    const float* scales;
    [[gnu::always_inline]] __m512i load(int, int j) const {
      using Words = std::uint16_t __attribute__((vector_size(64)));
      const __m512 every_code = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      // The product is exact, so this rounds once. (Zen 4 runs it faster than a fused operation with two broadcast operands.)
      const __m512 values =
          _mm512_add_ps(_mm512_mul_ps(every_code, _mm512_set1_ps(scales[j])), _mm512_set1_ps(scales[kPanelRows + j]));
      // VPERMW reads five bits of an index. The table stands there twice, so the fifth bit, a neighbour's, does not matter.
      const auto table = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(values, values));
      const auto words = reinterpret_cast<Words>(_mm512_loadu_si512(codes + j / kStripRows * (2 * kChunk)));
      return _mm512_permutexvar_epi16(reinterpret_cast<__m512i>(words >> (4 * (j % kStripRows))), table);
    }
  };
  [[gnu::always_inline]] Cursor at(int chunk, int column) const {
    return {
        data_ + static_cast<std::size_t>(chunk) * chunk_bytes(format) + scale_bytes(format) + column / kStripRows * (2 * kChunk),
        window_.at(chunk) + column};
  }

 private:
  const std::byte* data_;
  ScaleWindow<format> window_;
};

template <Format format>
class Int8Loader {
 public:
  static constexpr int kRefillChunks = ScaleWindow<format>::kChunks;

  explicit Int8Loader(const Panel& panel) : data_(panel.data) {}
  void refill(int first, int last) { window_.refill(data_, first, last); }
  [[gnu::always_inline]] void prefetch(int chunk) const { prefetch_ahead(data_, chunk, chunk_bytes(format)); }

  struct Cursor {
    const std::byte* codes;
    const float* scales;
    [[gnu::always_inline]] __m512i load(int, int j) const {
      const std::byte* row = codes + j * kChunk;
      const __m512 scale = _mm512_set1_ps(scales[j]);
      return reinterpret_cast<__m512i>(
          _mm512_cvtne2ps_pbh(_mm512_mul_ps(widen(row + 16), scale), _mm512_mul_ps(widen(row), scale)));
    }
    [[gnu::always_inline]] static __m512 widen(const std::byte* source) {
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source))));
    }
  };
  [[gnu::always_inline]] Cursor at(int chunk, int column) const {
    return {data_ + static_cast<std::size_t>(chunk) * chunk_bytes(format) + scale_bytes(format) + column * kChunk,
            window_.at(chunk) + column};
  }

 private:
  const std::byte* data_;
  ScaleWindow<format> window_;
};

void avx512_expand_panel(const Panel& panel, Bf16* out) {
  switch (panel.format) {
    case Format::kBf16: return;  // Never asked for.
    case Format::kInt4F16: return expand_with<Avx512Lanes>(Int4Loader<Format::kInt4F16>(panel), panel, out);
    case Format::kInt4F32: return expand_with<Avx512Lanes>(Int4Loader<Format::kInt4F32>(panel), panel, out);
    case Format::kInt8F16: return expand_with<Avx512Lanes>(Int8Loader<Format::kInt8F16>(panel), panel, out);
    case Format::kInt8F32: return expand_with<Avx512Lanes>(Int8Loader<Format::kInt8F32>(panel), panel, out);
  }
}

}  // namespace
}  // namespace lynx::matmul
