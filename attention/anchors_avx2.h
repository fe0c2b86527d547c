#pragma once

// Anchor planes read in place, as in anchors_avx512.h, but with FP32 factors: Σ f · scale · (code + zero) is Σ r · code + Σ r ·
// zero for r = f · scale, and nothing is rounded to BF16 again.

#include "attention/anchor_rows.h"
#include "attention/lanes_avx2.h"

namespace lynx::attention {
namespace {

/// Eight bytes that lie `stride` apart.
[[gnu::always_inline]] inline __m128i load_bytes(const void* bytes, int stride) {
  if (stride == 1) return _mm_loadl_epi64(static_cast<const __m128i*>(bytes));
  char together[kLanes];
  for (int i = 0; i < kLanes; ++i) together[i] = static_cast<const char*>(bytes)[i * stride];
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(together));
}

/// UE5M3 (quant/plane_math.h).
[[gnu::always_inline]] inline __m256 load_scales(const std::uint8_t* scales, int stride) {
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_bytes(scales, stride)), 20);
  return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(103 << 23)));
}
[[gnu::always_inline]] inline __m256 load_zeros(const std::int8_t* zeros, int stride) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_bytes(zeros, stride)));
}

/// Scores of `lines` lines from `first` on, whose queries are q [lines][dim], against a block's plane.
template <int lines>
void score_anchors(const ChunkTask& task, int first, int block, const float* q) {
  const AnchorHead& k = task.anchor_k[block];
  const AnchorHead& ahead = plane_ahead(task, block);
  const bool wide = k.residuals != nullptr;
  alignas(32) float folded[lines * kLargestDim];
  alignas(32) float sixteenths[lines * kLargestDim];
  __m256 lanes[lines] = {};
  // Bytes behind head_dim belong to the plane too, and meet queries that are zero.
  for (int channel = 0; channel < task.dim; channel += kLanes) {
    const bool used = channel < task.head_dim;
    const __m256 scale = load_scales(k.scales + (used ? channel : 0), 1);
    __m256 zero = load_zeros(k.zeros + (used ? channel : 0), 1);
    if (wide) zero = _mm256_sub_ps(zero, _mm256_set1_ps(0.5f));  // Residuals are nibbles − 8, in sixteenths.
    for (int l = 0; l < lines; ++l) {
      const int at = l * task.dim + channel;
      const __m256 factor = _mm256_mul_ps(_mm256_load_ps(q + at), scale);
      _mm256_store_ps(folded + at, factor);
      lanes[l] = _mm256_fmadd_ps(factor, zero, lanes[l]);
      if (wide) _mm256_store_ps(sixteenths + at, _mm256_mul_ps(factor, _mm256_set1_ps(1.0f / 16)));
    }
  }
  float rest[lines];
  for (int l = 0; l < lines; ++l) rest[l] = sum_lanes(lanes[l], _mm256_setzero_ps());
  const int group_bytes = task.dim / 2 * kRowBytes;  // 16 tokens.
  float* const out = task.scores + first * kScoreStride + block * kBlock;
  for (int g = 0; g < 4; ++g) {
    const int offset = g * group_bytes;
    dot_tile<CodeRows, lines>(folded, task.dim, k.codes + offset, ahead.codes + offset, task.dim / 2, out + g * 16, kScoreStride,
                              rest);
    if (!wide) continue;
    const std::uint8_t* const fetched = (ahead.residuals != nullptr ? ahead.residuals : ahead.codes) + offset;
    dot_tile<CodeRows, lines>(sixteenths, task.dim, k.residuals + offset, fetched, task.dim / 2, out + g * 16, kScoreStride,
                              nullptr);
  }
  if (k.sinks == nullptr) return;
  for (int l = 0; l < lines; ++l) {
    for (int t = 0; t < kSinks; ++t) {
      float score = 0;
      for (int c = 0; c < task.head_dim; ++c) score += q[l * task.dim + c] * bf16_to_float(k.sinks[t * task.head_dim + c]);
      out[l * kScoreStride + t] = score;
    }
  }
}

/// Folds the weights (task.scores) of `lines` lines from `first` on into the scales of V's channels [64 · group, 64 · group + 64):
/// [lines][kScoreStride]. Returns in `rest` what all sums of a line lack.
template <int lines>
void fold_weights(const ChunkTask& task, int first, int group, float* folded, float* rest) {
  const int groups = scale_groups(task);
  const __m256 behind_sinks = _mm256_castsi256_ps(_mm256_setr_epi32(0, 0, 0, 0, -1, -1, -1, -1));
  __m256 lanes[lines] = {};
  for (int token = 0; token < task.anchors * kBlock; token += kLanes) {
    const AnchorHead& v = task.anchor_v[token / kBlock];
    const int at = token % kBlock * groups + group;
    const __m256 scale = load_scales(v.scales + at, groups);
    const __m256 zero = load_zeros(v.zeros + at, groups);
    for (int l = 0; l < lines; ++l) {
      __m256 factor = _mm256_mul_ps(_mm256_load_ps(task.scores + (first + l) * kScoreStride + token), scale);
      if (v.sinks != nullptr && token == 0) factor = _mm256_and_ps(factor, behind_sinks);
      _mm256_store_ps(folded + l * kScoreStride + token, factor);
      lanes[l] = _mm256_fmadd_ps(factor, zero, lanes[l]);
    }
  }
  for (int l = 0; l < lines; ++l) rest[l] = sum_lanes(lanes[l], _mm256_setzero_ps());
}

/// Begins the output of `lines` lines from `first` on with all planes.
template <int lines>
void weigh_anchors(const ChunkTask& task, int first) {
  static_assert(kSinks == kLanes / 2);
  alignas(32) float folded[lines * kScoreStride];
  float rest[lines];
  for (int channel = 0; channel < task.dim; channel += 16) {
    if (channel % kScaleChannels == 0) fold_weights<lines>(task, first, channel / kScaleChannels, folded, rest);
    for (int block = 0; block < task.anchors; ++block) {
      const int offset = channel / 16 * kPairsOfBlock * kRowBytes;
      dot_tile<CodeRows, lines>(folded + block * kBlock, kScoreStride, task.anchor_v[block].codes + offset,
                                plane_ahead(task, task.anchors + block).codes + offset, kPairsOfBlock,
                                task.out + first * task.dim + channel, task.dim, block == 0 ? rest : nullptr);
    }
  }
  const Bf16* const sinks = task.anchor_v[0].sinks;
  if (sinks == nullptr) return;
  for (int l = first; l < first + lines; ++l) {
    for (int t = 0; t < kSinks; ++t) {
      const float weight = task.scores[l * kScoreStride + t];
      for (int c = 0; c < task.head_dim; ++c) task.out[l * task.dim + c] += weight * bf16_to_float(sinks[t * task.head_dim + c]);
    }
  }
}

}  // namespace
}  // namespace lynx::attention
