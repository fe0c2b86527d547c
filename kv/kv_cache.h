#pragma once

// The bytes of the paged KV cache. One block holds 64 tokens of one layer, all KV heads, K and V, as BF16.
//
// Layout of one (layer, block, KV head), D = head_dim rounded up to 32 (the rest is zero); "pair" = two BF16 next to each other, as
// the BF16 dot-product instructions take them:
//   K: [4 groups of 16 tokens][D/2 channel pairs][16 tokens][2 channels]   (scores: lanes are tokens, the chain runs over channels)
//   V: [D/16 groups of 16 channels][32 token pairs][16 channels][2 tokens] (output: lanes are channels, the chain runs over tokens)
// Slots that hold no token of the sequence are anything (another request's values, NaN): readers must not let them count. The
// channels from head_dim to D are always zero.

#include <cstddef>
#include <cstdint>

#include "common/status.h"
#include "device/bf16_math.h"
#include "device/host_buffer.h"
#include "kv/block_pool.h"

namespace lynx::kv {

inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxKvHeads = 1024;
inline constexpr int kMaxHeadDim = 256;

struct KvShape {
  int layers;
  int kv_heads;
  int head_dim;  ///< Even, at most kMaxHeadDim.
};

/// head_dim as stored: rounded up to a multiple of 32.
constexpr int stored_head_dim(int head_dim) {
  return (head_dim + 31) / 32 * 32;
}

/// Index of (token in block, channel) inside a K or V part of 64 · D values.
constexpr std::size_t k_index(int token, int channel, int stored_dim) {
  return static_cast<std::size_t>(((token / 16) * (stored_dim / 2) + channel / 2) * 32 + (token % 16) * 2 + channel % 2);
}
constexpr std::size_t v_index(int token, int channel) {
  return static_cast<std::size_t>(((channel / 16) * (kBlockTokens / 2) + token / 2) * 32 + (channel % 16) * 2 + token % 2);
}

/// Not thread-safe for overlapping blocks; kernels write and read disjoint parts.
class KvCache {
 public:
  /// Allocates `blocks` blocks for all layers, zeroed. INVALID_ARGUMENT naming a shape out of range, RESOURCE_EXHAUSTED naming the
  /// size.
  static Result<KvCache> create(KvShape shape, int blocks);

  /// Bytes of one block over all layers: what --kv-memory is divided by. `shape` as create() wants it.
  static std::int64_t block_bytes(KvShape shape);

  const KvShape& shape() const { return shape_; }
  int blocks() const { return blocks_; }

  Bf16* k(int layer, BlockId block, int kv_head);  ///< [64 · D], layout above.
  Bf16* v(int layer, BlockId block, int kv_head);
  const Bf16* k(int layer, BlockId block, int kv_head) const;
  const Bf16* v(int layer, BlockId block, int kv_head) const;

  /// Writes one token's K and V of one layer (FP32 [kv_heads][head_dim], rounded to BF16) at `position` of the sequence owning
  /// `table`.
  void store(int layer, const BlockId* table, int position, const float* k_values, const float* v_values);

  /// Copies a block of every layer: copy-on-write.
  void copy_block(BlockId from, BlockId to);

 private:
  KvCache(KvShape shape, int blocks, HostBuffer memory);
  std::size_t offset(int layer, BlockId block, int kv_head) const;

  KvShape shape_;
  int blocks_;
  HostBuffer memory_;
};

}  // namespace lynx::kv
