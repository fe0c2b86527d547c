#include "kv/anchor_cache.h"

#include <string>
#include <utility>

#include "common/units.h"

namespace lynx::kv {
namespace {

std::size_t stride(std::size_t plane_bytes) {
  return (plane_bytes + 63) / 64 * 64;
}

}  // namespace

AnchorCache::AnchorCache(int blocks, std::size_t plane_bytes, HostBuffer memory)
    : blocks_(blocks), plane_bytes_(plane_bytes), memory_(std::move(memory)) {}

std::int64_t AnchorCache::block_bytes(int layers, std::size_t plane_bytes) {
  return std::int64_t{2} * layers * static_cast<std::int64_t>(stride(plane_bytes));
}

Result<AnchorCache> AnchorCache::create(int layers, int blocks, std::size_t plane_bytes) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(block_bytes(layers, plane_bytes), blocks, &bytes)) {
    return resource_exhausted("anchor planes: " + std::to_string(blocks) + " blocks of " +
                              format_bytes(block_bytes(layers, plane_bytes)));
  }
  auto memory = HostBuffer::allocate(static_cast<std::size_t>(bytes));
  if (!memory.ok()) return memory.status().with_context("anchor planes");
  return AnchorCache(blocks, plane_bytes, std::move(memory).value());
}

std::size_t AnchorCache::offset(int layer, BlockId block, KvPart part) const {
  const std::size_t row = static_cast<std::size_t>(layer) * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(block);
  return (row * 2 + (part == KvPart::kV ? 1 : 0)) * stride(plane_bytes_);
}

std::span<std::byte> AnchorCache::plane(int layer, BlockId block, KvPart part) {
  return {memory_.data() + offset(layer, block, part), plane_bytes_};
}

std::span<const std::byte> AnchorCache::plane(int layer, BlockId block, KvPart part) const {
  return {memory_.data() + offset(layer, block, part), plane_bytes_};
}

}  // namespace lynx::kv
