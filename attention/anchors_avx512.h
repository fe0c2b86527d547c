#pragma once

// Anchor planes read in place. A value is (code + zero) · scale, where scale and zero belong to a channel of K or to a token of V:
// to what a dot product runs over. So scales go into its other factor, f = query or weight:
//
//   Σ f · scale · (code + zero)  =  Σ r · (code − 8)  +  Σ f · scale · (zero + 8),    r = BF16(f · scale)
//
// The second sum is the same for all lanes and exact but for FP32's roundings; the rounding of r meets at most eight steps. Codes
// become BF16 by their bits alone: 0x4300 | code is 128 + code, so the first sum is Σ r · (128 + code) − 136 · Σ r.

#include "attention/anchor_rows.h"
#include "attention/lanes_avx512.h"
#include "attention/softmax_avx512.h"

namespace lynx::attention {
namespace {

constexpr int kStepValues = 8;  ///< What is summed over in four rows, which are one register.
constexpr int kQueryStride = kLargestDim + 32;

/// Lane i gets the bytes i of four rows, the first row's lowest.
[[gnu::always_inline]] inline __m512i load_rows(const std::uint8_t* codes) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i order = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x01010101)), _mm512_set1_epi32(0x30201000));
  return _mm512_permutexvar_epi8(order, _mm512_loadu_si512(codes));
}

/// The nibbles at bits `shift` and `shift` + 16: of values shift / 4 and shift / 4 + 4 of the eight.
template <int shift>
[[gnu::always_inline]] inline __m512bh pairs_of(__m512i rows) {
  constexpr int kAndOr = 0xea;  // (a & b) | c
  __m512i nibbles = rows;
  if constexpr (shift != 0) nibbles = _mm512_srli_epi32(rows, shift);
  return reinterpret_cast<__m512bh>(
      _mm512_ternarylogic_epi32(nibbles, _mm512_set1_epi32(0x000f000f), _mm512_set1_epi32(0x43004300), kAndOr));
}

/// The order of a step's factors: pairs (0, 4), (1, 5), (2, 6), (3, 7).
[[gnu::always_inline]] inline __m512i step_order(__m512bh values) {
  const __m512i within = _mm512_set1_epi64(0x0005000100040000);
  const __m512i upper = _mm512_set1_epi64(0x0007000300060002);
  const __m512i eights = _mm512_set_epi64(0x0018001800180018, 0x0018001800180018, 0x0010001000100010, 0x0010001000100010,
                                          0x0008000800080008, 0x0008000800080008, 0, 0);
  const __m512i order = _mm512_add_epi16(_mm512_mask_blend_epi64(0xaa, within, upper), eights);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(values));
}

template <int shift, int lines, int vectors>
[[gnu::always_inline]] inline void add_pairs(__m512 (&sum)[lines][vectors], const __m512i (&rows)[vectors], const Bf16* folded,
                                             int stride) {
  __m512bh pairs[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) pairs[v] = pairs_of<shift>(rows[v]);
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) {
    const __m512bh factor = broadcast_pair(folded + l * stride + shift / 2);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[l][v] = _mm512_dpbf16_ps(sum[l][v], factor, pairs[v]);
  }
}

/// Adds Σ folded · (128 + code) over `values` values, a multiple of 8: folded is [lines][stride] in steps' order, the rows of the
/// vectors lie `vector_bytes` apart. `ahead` is read in the same way some time later: fetched meanwhile.
template <int stride, int lines, int vectors>
[[gnu::always_inline]] inline void add_codes(__m512 (&sum)[lines][vectors], const Bf16* folded, const std::uint8_t* codes,
                                             const std::uint8_t* ahead, int vector_bytes, int values) {
  for (int i = 0; i < values; i += kStepValues) {
    __m512i rows[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const int offset = v * vector_bytes + i / 2 * kRowBytes;
      rows[v] = load_rows(codes + offset);
      _mm_prefetch(ahead + offset, _MM_HINT_T1);
    }
    add_pairs<0>(sum, rows, folded + i, stride);
    add_pairs<4>(sum, rows, folded + i, stride);
    add_pairs<8>(sum, rows, folded + i, stride);
    add_pairs<12>(sum, rows, folded + i, stride);
  }
}

/// Scales and zeros + 8 of 32 values.
struct Scales {
  __m512 scale[2];
  __m512 centre[2];
};

/// UE5M3 (quant/plane_math.h).
[[gnu::always_inline]] inline __m512 scales_of(__m128i codes) {
  const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(codes), 20);
  return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(103 << 23)));
}
[[gnu::always_inline]] inline __m512 centres_of(__m128i zeros) {
  return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_cvtepi8_epi32(zeros), _mm512_set1_epi32(8)));
}

/// Of channels from `channel` on; anything from head_dim on, where queries are zero.
[[gnu::always_inline]] inline Scales key_scales(const AnchorHead& k, int channel, int head_dim) {
  Scales scales;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half, channel += kLanes) {
    const int left = head_dim - channel < 0 ? 0 : (head_dim - channel < kLanes ? head_dim - channel : kLanes);
    const __mmask16 mask = static_cast<__mmask16>((1u << left) - 1);
    scales.scale[half] = scales_of(_mm_maskz_loadu_epi8(mask, k.scales + channel));
    scales.centre[half] = centres_of(_mm_maskz_loadu_epi8(mask, k.zeros + channel));
  }
  return scales;
}

/// Of tokens from `token` on, for one of the `groups` groups that their channels are cut into (at most 4).
[[gnu::always_inline]] inline Scales value_scales(const AnchorHead& v, int token, int group, int groups) {
  const __m512i lane = _mm512_cvtepu8_epi32(_mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  const __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(groups)), _mm512_set1_epi32(group));
  const __m512i order = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(at));
  const __mmask64 mask = ~__mmask64{0} >> (64 - kLanes * groups);
  Scales scales;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half, token += kLanes) {
    const __m512i scale = _mm512_maskz_loadu_epi8(mask, v.scales + token * groups);
    const __m512i zero = _mm512_maskz_loadu_epi8(mask, v.zeros + token * groups);
    scales.scale[half] = scales_of(_mm512_castsi512_si128(_mm512_permutexvar_epi8(order, scale)));
    scales.centre[half] = centres_of(_mm512_castsi512_si128(_mm512_permutexvar_epi8(order, zero)));
  }
  return scales;
}

/// Stores BF16(a · scales), b behind a, in steps' order, and returns `rest` − 136 · their sum.
[[gnu::always_inline]] inline __m512 store_folded(__m512 a, __m512 b, __m512 rest, Bf16* folded) {
  const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
  _mm512_store_si512(folded, step_order(rounded));
  return _mm512_dpbf16_ps(rest, rounded, reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(0xc308c308u))));
}

/// Folds the scales into 32 factors. Adds to `rest`, whose lanes together are what all sums lack. `residuals`: where to store a
/// sixteenth of the folded ones, for the lower bits of a wide plane, or null.
[[gnu::always_inline]] inline void fold(__m512i factors, const Scales& scales, Bf16* folded, Bf16* residuals, __m512* rest) {
  const __m512i low = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(factors)), 16);
  const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(factors, 1)), 16);
  const __m512 a = _mm512_mul_ps(_mm512_castsi512_ps(low), scales.scale[0]);
  const __m512 b = _mm512_mul_ps(_mm512_castsi512_ps(high), scales.scale[1]);
  __m512 sum = _mm512_fmadd_ps(a, scales.centre[0], *rest);
  sum = _mm512_fmadd_ps(b, scales.centre[1], sum);
  sum = store_folded(a, b, sum, folded);
  if (residuals != nullptr) {
    const __m512 sixteenth = _mm512_set1_ps(1.0f / 16);
    sum = store_folded(_mm512_mul_ps(a, sixteenth), _mm512_mul_ps(b, sixteenth), sum, residuals);
  }
  *rest = sum;
}

/// Into the L2 cache: what is folded in of a plane.
[[gnu::always_inline]] inline void fetch_scales(const AnchorHead& head, int bytes) {
  for (int i = 0; i < bytes; i += 64) {
    _mm_prefetch(head.scales + i, _MM_HINT_T1);
    _mm_prefetch(head.zeros + i, _MM_HINT_T1);
  }
}

template <int lines>
inline constexpr int kAnchorVectors = lines <= 5 ? kVectorsAtOnce : 2;

/// Folds the queries of `lines` lines from `first` on into the scales of a block's K, both parts [lines][kQueryStride]; `rest` is
/// what all scores of a line lack.
template <int lines>
[[gnu::always_inline]] inline void fold_queries(const ChunkTask& task, int first, const AnchorHead& k, Bf16* folded,
                                                Bf16* sixteenths, float* rest) {
  __m512 lanes[lines];
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) lanes[l] = _mm512_setzero_ps();
  for (int channel = 0; channel < task.dim; channel += kVectorValues) {
    const Scales scales = key_scales(k, channel, task.head_dim);
#pragma GCC unroll 12
    for (int l = 0; l < lines; ++l) {
      const __m512i q = _mm512_load_si512(task.q + (first + l) * task.dim + channel);
      const int at = l * kQueryStride + channel;
      fold(q, scales, folded + at, k.residuals != nullptr ? sixteenths + at : nullptr, &lanes[l]);
    }
  }
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) rest[l] = sum_lanes(lanes[l]);
}

/// Scores of `lines` lines from `first` on against a block's plane. Those of sinks are there already and stay.
template <int lines>
void score_anchors(const ChunkTask& task, int first, int block) {
  constexpr int kVectors = kAnchorVectors<lines>;
  const AnchorHead& k = task.anchor_k[block];
  const AnchorHead& ahead = plane_ahead(task, block);
  alignas(64) Bf16 folded[lines * kQueryStride];
  alignas(64) Bf16 sixteenths[lines * kQueryStride];
  float rest[lines];
  fetch_scales(ahead, task.head_dim);
  fetch_scales(task.anchor_v[block], kBlock * scale_groups(task));
  fold_queries<lines>(task, first, k, folded, sixteenths, rest);
  const int vector_bytes = task.dim / 2 * kRowBytes;  // 16 tokens.
  for (int vector = 0; vector < kVectorsAtOnce; vector += kVectors) {
    const int offset = vector * vector_bytes;
    __m512 sum[lines][kVectors];
#pragma GCC unroll 12
    for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[l][v] = _mm512_set1_ps(rest[l]);
    }
    add_codes<kQueryStride>(sum, folded, k.codes + offset, ahead.codes + offset, vector_bytes, task.dim);
    if (k.residuals != nullptr) {
      const std::uint8_t* const fetched = (ahead.residuals != nullptr ? ahead.residuals : ahead.codes) + offset;
      add_codes<kQueryStride>(sum, sixteenths, k.residuals + offset, fetched, vector_bytes, task.dim);
    }
    const unsigned raw = vector == 0 && k.sinks != nullptr ? kSinks : 0;
    const __mmask16 coded = static_cast<__mmask16>(0xffffu << raw);
    float* const out = task.scores + first * kScoreStride + block * kBlock + vector * kLanes;
#pragma GCC unroll 12
    for (int l = 0; l < lines; ++l) {
      _mm512_mask_store_ps(out + l * kScoreStride, coded, sum[l][0]);
#pragma GCC unroll 4
      for (int v = 1; v < kVectors; ++v) _mm512_store_ps(out + l * kScoreStride + v * kLanes, sum[l][v]);
    }
  }
}

/// Folds the weights of `lines` lines from `first` on into the scales of V's channels [64 · group, 64 · group + 64): [lines]
/// [kWeightStride]; `rest` is what all sums of a line lack.
template <int lines>
[[gnu::always_inline]] inline void fold_weights(const ChunkTask& task, int first, int group, Bf16* folded, float* rest) {
  const int groups = scale_groups(task);
  __m512 lanes[lines];
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) lanes[l] = _mm512_setzero_ps();
  for (int token = 0; token < task.anchors * kBlock; token += kVectorValues) {
    const AnchorHead& v = task.anchor_v[token / kBlock];
    const Scales scales = value_scales(v, token % kBlock, group, groups);
    const __mmask32 coded = v.sinks != nullptr && token == 0 ? ~__mmask32{0} << kSinks : ~__mmask32{0};
#pragma GCC unroll 12
    for (int l = 0; l < lines; ++l) {
      const __m512i weights = _mm512_maskz_loadu_epi16(coded, task.weights + (first + l) * kWeightStride + token);
      fold(weights, scales, folded + l * kWeightStride + token, nullptr, &lanes[l]);
    }
  }
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) rest[l] = sum_lanes(lanes[l]);
}

/// Adds all planes to the output channels [16 · group, 16 · (group + vectors)) of `lines` lines from `first` on; or starts it.
template <int lines, int vectors>
[[gnu::always_inline]] inline void weigh_anchor_tile(const ChunkTask& task, int first, int group, const Bf16* folded,
                                                     const float* rest, bool start) {
  constexpr int kVectorBytes = kPairsOfBlock * kRowBytes;  // 16 channels.
  float* const out = task.out + first * task.dim + group * kLanes;
  __m512 sum[lines][vectors];
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const __m512 before = start ? _mm512_setzero_ps() : _mm512_load_ps(out + l * task.dim + v * kLanes);
      sum[l][v] = _mm512_add_ps(before, _mm512_set1_ps(rest[l]));
    }
  }
  for (int block = 0; block < task.anchors; ++block) {
    const AnchorHead& ahead = plane_ahead(task, task.anchors + block);
    const int offset = group * kVectorBytes;
    add_codes<kWeightStride>(sum, folded + block * kBlock, task.anchor_v[block].codes + offset, ahead.codes + offset, kVectorBytes,
                             kBlock);
  }
#pragma GCC unroll 12
  for (int l = 0; l < lines; ++l) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) _mm512_store_ps(out + l * task.dim + v * kLanes, sum[l][v]);
  }
}

template <int lines>
void weigh_anchors(const ChunkTask& task, int first, bool start) {
  constexpr int kVectors = kAnchorVectors<lines>;
  alignas(64) Bf16 folded[lines * kWeightStride];
  float rest[lines];
  const int groups = task.dim / kLanes;  // Even.
  for (int group = 0; group < groups; group += kVectors) {
    if (group % kVectorsAtOnce == 0) fold_weights<lines>(task, first, group / kVectorsAtOnce, folded, rest);
    if (groups - group >= kVectors) {
      weigh_anchor_tile<lines, kVectors>(task, first, group, folded, rest, start);
    } else {
      weigh_anchor_tile<lines, 2>(task, first, group, folded, rest, start);
    }
  }
}

/// Where the sinks of a chunk's first block are once write_sinks() made them a block of BF16: the task over them alone.
inline ChunkTask sink_task(const ChunkTask& task) {
  ChunkTask sinks = task;
  sinks.k[0] = task.view;
  sinks.v[0] = task.view + kLanes * task.dim;
  sinks.next = sinks.v[0];
  sinks.keys = kSinks;
  return sinks;
}

inline void write_sinks(const ChunkTask& task) {
  Bf16* const k = task.view;
  Bf16* const v = k + kLanes * task.dim;
  __builtin_memset(k, 0, static_cast<std::size_t>(kLanes * task.dim) * sizeof(Bf16));
  const Bf16* const raw_k = task.anchor_k[0].sinks;
  const Bf16* const raw_v = task.anchor_v[0].sinks;
  for (int channel = 0; channel < task.head_dim; channel += 2) {
    Bf16* const row = k + channel / 2 * kVectorValues;
    for (int t = 0; t < kSinks; ++t) __builtin_memcpy(row + 2 * t, raw_k + t * task.head_dim + channel, 2 * sizeof(Bf16));
  }
  for (int channel = 0; channel < task.dim; ++channel) {
    Bf16* const at = v + channel / kLanes * kPairsOfBlock * kVectorValues + channel % kLanes * 2;
    for (int t = 0; t < kSinks; ++t) {
      at[t / 2 * kVectorValues + t % 2] = channel < task.head_dim ? raw_v[t * task.head_dim + channel] : Bf16{0};
    }
  }
}

}  // namespace
}  // namespace lynx::attention
