#pragma once

// Anchor planes made the BF16 blocks that they stand for (quant/plane_codec.h gives the same bits), for the path that does not read
// them in place. Plain loops that a compiler may vectorize.

#include "attention/anchor_rows.h"
#include "attention/chunk_kernel.h"
#include "quant/plane_math.h"

namespace lynx::attention {
namespace {

/// What the slots of one nibble of a row's bytes share.
struct AnchorGroup {
  float scale;
  int zero;
};

inline AnchorGroup group_at(const AnchorHead& head, int group) {
  return {quant::ue5m3_to_float(head.scales[group]), head.zeros[group]};
}

inline Bf16 anchor_value(int code, AnchorGroup group) {
  return quant::level_to_bf16(code + group.zero, group.scale);
}

inline Bf16 wide_value(int code, int residual, AnchorGroup group) {
  return quant::level_to_bf16((code + group.zero) * quant::kInt8Steps + residual - 8, group.scale / quant::kInt8Steps);
}

/// One row: `even` are the groups of the lower nibbles. Pairs from `used` on become 0.
inline void expand_row(const AnchorHead& head, int row, AnchorGroup even, AnchorGroup odd, int used, Bf16* out) {
  const std::uint8_t* codes = head.codes + row * kRowBytes;
  std::uint32_t pairs[kRowBytes];
  if (head.residuals == nullptr) {
    for (int i = 0; i < kRowBytes; ++i) {
      pairs[i] = anchor_value(codes[i] & 15, even) | static_cast<std::uint32_t>(anchor_value(codes[i] >> 4, odd)) << 16;
    }
  } else {
    const std::uint8_t* residuals = head.residuals + row * kRowBytes;
    for (int i = 0; i < kRowBytes; ++i) {
      const std::uint32_t upper = wide_value(codes[i] >> 4, residuals[i] >> 4, odd);
      pairs[i] = wide_value(codes[i] & 15, residuals[i] & 15, even) | upper << 16;
    }
  }
  for (int i = used; i < kRowBytes; ++i) pairs[i] = 0;
  __builtin_memcpy(out, pairs, sizeof pairs);
}

inline void expand_keys(const AnchorHead& head, int dim, int head_dim, Bf16* out) {
  const int pairs = dim / 2;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool used = 2 * pair < head_dim;
    const AnchorGroup even = used ? group_at(head, 2 * pair) : AnchorGroup{};
    const AnchorGroup odd = used ? group_at(head, 2 * pair + 1) : AnchorGroup{};
    for (int row = pair; row < kBlock / 16 * pairs; row += pairs) {
      expand_row(head, row, even, odd, used ? kRowBytes : 0, out + row * kRowSlots);
    }
  }
  if (head.sinks == nullptr) return;
  for (int token = 0; token < kSinks; ++token) {
    for (int c = 0; c < head_dim; ++c) out[c / 2 * kRowSlots + token * 2 + c % 2] = head.sinks[token * head_dim + c];
  }
}

inline void expand_values(const AnchorHead& head, int dim, int head_dim, Bf16* out) {
  const int groups = (head_dim + kScaleChannels - 1) / kScaleChannels;
  for (int channel = 0; channel < dim; channel += 16) {
    const int used = head_dim - channel < 0 ? 0 : (head_dim - channel < 16 ? head_dim - channel : 16);
    const int group = used > 0 ? channel / kScaleChannels : 0;
    for (int pair = 0; pair < kBlock / 2; ++pair) {
      const int row = channel / 16 * (kBlock / 2) + pair;
      const AnchorGroup even = group_at(head, 2 * pair * groups + group);
      const AnchorGroup odd = group_at(head, (2 * pair + 1) * groups + group);
      expand_row(head, row, even, odd, used, out + row * kRowSlots);
    }
  }
  if (head.sinks == nullptr) return;
  for (int token = 0; token < kSinks; ++token) {
    for (int c = 0; c < head_dim; ++c) {
      out[(c / 16 * (kBlock / 2) + token / 2) * kRowSlots + c % 16 * 2 + token % 2] = head.sinks[token * head_dim + c];
    }
  }
}

/// The same task over blocks of BF16.
inline ChunkTask expand_anchors(const ChunkTask& task) {
  ChunkTask expanded = task;
  expanded.anchors = 0;
  for (int b = 0; b < task.anchors; ++b) {
    Bf16* const k = task.view + 2 * b * kBlock * task.dim;
    Bf16* const v = k + kBlock * task.dim;
    expand_keys(task.anchor_k[b], task.dim, task.head_dim, k);
    expand_values(task.anchor_v[b], task.dim, task.head_dim, v);
    expanded.k[b] = k;
    expanded.v[b] = v;
  }
  expanded.next = expanded.k[0];  // Planes are not what a kernel would fetch.
  return expanded;
}

}  // namespace
}  // namespace lynx::attention
