#include "kv/kv_units.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace lynx::kv {
namespace {

constexpr int kGroupTokens = 16;
constexpr int kGroupChannels = 16;
constexpr std::size_t kRow = 32;  ///< Values of a pair of channels × 16 tokens (K), or of a pair of tokens × 16 channels (V).

int groups_of(int tokens) {
  return (tokens + kGroupTokens - 1) / kGroupTokens;
}

std::size_t size(int value) {
  return static_cast<std::size_t>(value);
}

void copy(Bf16* to, const Bf16* from, std::size_t values) {
  std::memcpy(to, from, values * sizeof(Bf16));
}

void clear(Bf16* from, std::size_t values) {
  std::memset(from, 0, values * sizeof(Bf16));
}

/// Zeroes the slots of a head's K, [groups of 16 tokens][dim/2 pairs][16 tokens][2], beyond `tokens`.
void clear_k_slots(Bf16* k, int tokens, int dim) {
  const int used = tokens % kGroupTokens;
  if (used == 0) return;
  Bf16* group = k + size(tokens / kGroupTokens) * size(dim / 2) * kRow;
  for (int pair = 0; pair < dim / 2; ++pair) clear(group + size(pair) * kRow + size(used) * 2, kRow - size(used) * 2);
}

void clear_k_channels(Bf16* k, int groups, int head_dim, int dim) {
  for (int group = 0; group < groups && head_dim < dim; ++group) {
    clear(k + (size(group) * size(dim / 2) + size(head_dim / 2)) * kRow, size(dim - head_dim) / 2 * kRow);
  }
}

/// Zeroes the slots of one channel group's V, [groups · 8 token pairs][16 channels][2], beyond `tokens`.
void clear_v_slots(Bf16* v, int tokens) {
  const int pairs = groups_of(tokens) * (kGroupTokens / 2);
  if (tokens % 2 != 0) {
    for (int channel = 0; channel < kGroupChannels; ++channel) v[size(tokens / 2) * kRow + size(channel) * 2 + 1] = 0;
  }
  const int used = (tokens + 1) / 2;
  clear(v + size(used) * kRow, size(pairs - used) * kRow);
}

/// Zeroes the channels of one channel group's V from `used` on.
void clear_v_channels(Bf16* v, int groups, int used) {
  for (int pair = 0; pair < groups * (kGroupTokens / 2) && used < kGroupChannels; ++pair) {
    clear(v + size(pair) * kRow + size(used) * 2, size(kGroupChannels - used) * 2);
  }
}

/// Values of one head's K, or of one channel group's V, that lie side by side both in a block and in a unit.
std::size_t k_run(int tokens, int dim) {
  return size(groups_of(tokens)) * size(dim / 2) * kRow;
}
std::size_t v_run(int tokens) {
  return size(groups_of(tokens)) * (kGroupTokens / 2) * kRow;
}
constexpr std::size_t kVStride = kBlockTokens / 2 * kRow;  ///< From one channel group's V to the next in a block.

}  // namespace

std::size_t unit_values(const KvShape& shape, int tokens) {
  assert(tokens >= 1 && tokens <= kBlockTokens);
  return size(shape.kv_heads) * size(stored_head_dim(shape.head_dim)) * size(groups_of(tokens) * kGroupTokens);
}

void read_unit(const KvCache& cache, int layer, BlockId block, KvPart part, int tokens, std::span<Bf16> out) {
  const KvShape& shape = cache.shape();
  assert(out.size() == unit_values(shape, tokens));
  const int dim = stored_head_dim(shape.head_dim);
  Bf16* to = out.data();
  for (int head = 0; head < shape.kv_heads; ++head) {
    if (part == KvPart::kK) {
      copy(to, cache.k(layer, block, head), k_run(tokens, dim));
      clear_k_slots(to, tokens, dim);
      to += k_run(tokens, dim);
      continue;
    }
    const Bf16* from = cache.v(layer, block, head);
    for (int group = 0; group < dim / kGroupChannels; ++group, from += kVStride, to += v_run(tokens)) {
      copy(to, from, v_run(tokens));
      clear_v_slots(to, tokens);
    }
  }
}

void write_unit(KvCache& cache, int layer, BlockId block, KvPart part, int tokens, std::span<const Bf16> values) {
  const KvShape& shape = cache.shape();
  assert(values.size() == unit_values(shape, tokens));
  const int dim = stored_head_dim(shape.head_dim);
  const Bf16* from = values.data();
  for (int head = 0; head < shape.kv_heads; ++head) {
    if (part == KvPart::kK) {
      Bf16* to = cache.k(layer, block, head);
      copy(to, from, k_run(tokens, dim));
      clear_k_slots(to, tokens, dim);
      clear_k_channels(to, groups_of(tokens), shape.head_dim, dim);
      from += k_run(tokens, dim);
      continue;
    }
    Bf16* to = cache.v(layer, block, head);
    for (int group = 0; group < dim / kGroupChannels; ++group, to += kVStride, from += v_run(tokens)) {
      copy(to, from, v_run(tokens));
      clear_v_slots(to, tokens);
      clear_v_channels(to, groups_of(tokens), std::clamp(shape.head_dim - group * kGroupChannels, 0, kGroupChannels));
    }
  }
}

}  // namespace lynx::kv
