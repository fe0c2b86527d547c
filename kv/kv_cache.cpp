#include "kv/kv_cache.h"

#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "common/units.h"

namespace lynx::kv {
namespace {

/// Values of the K or the V part of one (layer, block, KV head).
std::size_t part_values(const KvShape& shape) {
  return static_cast<std::size_t>(kBlockTokens) * static_cast<std::size_t>(stored_head_dim(shape.head_dim));
}

}  // namespace

std::int64_t KvCache::block_bytes(KvShape shape) {
  return std::int64_t{2} * sizeof(Bf16) * shape.layers * shape.kv_heads * static_cast<std::int64_t>(part_values(shape));
}

Result<KvCache> KvCache::create(KvShape shape, int blocks) {
  if (shape.layers < 1 || shape.layers > kMaxLayers) return invalid_argument("KV cache: layers = " + std::to_string(shape.layers));
  if (shape.kv_heads < 1 || shape.kv_heads > kMaxKvHeads) {
    return invalid_argument("KV cache: KV heads = " + std::to_string(shape.kv_heads));
  }
  if (shape.head_dim < 2 || shape.head_dim > kMaxHeadDim || shape.head_dim % 2 != 0) {
    return invalid_argument("KV cache: head_dim = " + std::to_string(shape.head_dim) + ", supported are even numbers up to " +
                            std::to_string(kMaxHeadDim));
  }
  if (blocks < 1) return invalid_argument("KV cache: blocks = " + std::to_string(blocks));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(block_bytes(shape), blocks, &bytes)) {
    return resource_exhausted("KV cache: " + std::to_string(blocks) + " blocks of " + format_bytes(block_bytes(shape)));
  }
  Result<HostBuffer> memory = HostBuffer::allocate(static_cast<std::size_t>(bytes));
  if (!memory.ok()) return memory.status().with_context("KV cache of " + format_bytes(bytes));
  return KvCache(shape, blocks, std::move(memory).value());
}

KvCache::KvCache(KvShape shape, int blocks, HostBuffer memory) : shape_(shape), blocks_(blocks), memory_(std::move(memory)) {}

std::size_t KvCache::offset(int layer, BlockId block, int kv_head) const {
  assert(layer >= 0 && layer < shape_.layers && block >= 0 && block < blocks_ && kv_head >= 0 && kv_head < shape_.kv_heads);
  const std::size_t block_index =
      static_cast<std::size_t>(layer) * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(block);
  const std::size_t head_index = block_index * static_cast<std::size_t>(shape_.kv_heads) + static_cast<std::size_t>(kv_head);
  return head_index * 2 * part_values(shape_);
}

Bf16* KvCache::k(int layer, BlockId block, int kv_head) {
  return reinterpret_cast<Bf16*>(memory_.data()) + offset(layer, block, kv_head);
}
Bf16* KvCache::v(int layer, BlockId block, int kv_head) {
  return k(layer, block, kv_head) + part_values(shape_);
}
const Bf16* KvCache::k(int layer, BlockId block, int kv_head) const {
  return reinterpret_cast<const Bf16*>(memory_.data()) + offset(layer, block, kv_head);
}
const Bf16* KvCache::v(int layer, BlockId block, int kv_head) const {
  return k(layer, block, kv_head) + part_values(shape_);
}

void KvCache::store(int layer, const BlockId* table, int position, const float* k_values, const float* v_values) {
  const int token = position % kBlockTokens;
  const BlockId block = table[position / kBlockTokens];
  const int stored_dim = stored_head_dim(shape_.head_dim);
  Bf16 rounded[kMaxHeadDim];
  for (int head = 0; head < shape_.kv_heads; ++head) {
    const float* k_row = k_values + head * shape_.head_dim;
    const float* v_row = v_values + head * shape_.head_dim;
    Bf16* k_part = k(layer, block, head) + k_index(token, 0, stored_dim);
    Bf16* v_part = v(layer, block, head);
    for (int c = 0; c < shape_.head_dim; ++c) rounded[c] = float_to_bf16(k_row[c]);
    for (int pair = 0; pair < shape_.head_dim / 2; ++pair) std::memcpy(k_part + pair * 32, rounded + pair * 2, 2 * sizeof(Bf16));
    for (int c = 0; c < shape_.head_dim; ++c) rounded[c] = float_to_bf16(v_row[c]);
    for (int c = 0; c < shape_.head_dim; ++c) v_part[v_index(token, c)] = rounded[c];
  }
}

void KvCache::copy_block(BlockId from, BlockId to) {
  const std::size_t bytes = static_cast<std::size_t>(shape_.kv_heads) * 2 * part_values(shape_) * sizeof(Bf16);
  for (int layer = 0; layer < shape_.layers; ++layer) std::memcpy(k(layer, to, 0), k(layer, from, 0), bytes);
}

}  // namespace lynx::kv
