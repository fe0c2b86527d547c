#include "kv/anchor_cache.h"

#include <string>
#include <utility>

#include "common/units.h"

namespace lynx::kv {
namespace {

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

std::size_t layer_bytes(AnchorPlaneBytes plane_bytes) {
  return whole_lines(plane_bytes.k) + whole_lines(plane_bytes.v);
}

}  // namespace

AnchorCache::AnchorCache(int blocks, AnchorPlaneBytes plane_bytes, HostBuffer memory)
    : blocks_(blocks), plane_bytes_(plane_bytes), memory_(std::move(memory)) {}

std::int64_t AnchorCache::block_bytes(int layers, AnchorPlaneBytes plane_bytes) {
  return std::int64_t{layers} * static_cast<std::int64_t>(layer_bytes(plane_bytes));
}

Result<AnchorCache> AnchorCache::create(int layers, int blocks, AnchorPlaneBytes plane_bytes) {
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
  return row * layer_bytes(plane_bytes_) + (part == KvPart::kV ? whole_lines(plane_bytes_.k) : 0);
}

std::span<std::byte> AnchorCache::plane(int layer, BlockId block, KvPart part) {
  return {memory_.data() + offset(layer, block, part), size(part)};
}

std::span<const std::byte> AnchorCache::plane(int layer, BlockId block, KvPart part) const {
  return {memory_.data() + offset(layer, block, part), size(part)};
}

}  // namespace lynx::kv
