#pragma once

// Memory for the Anchor planes of blocks, beside their BF16 values in kv/kv_cache.h: what drafting reads while the Residuals are on
// their way. Opaque bytes here; quant/plane_codec.h says what they are.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "device/host_buffer.h"
#include "kv/block_pool.h"
#include "kv/kv_units.h"

namespace lynx::kv {

/// Bytes of the largest plane of each part: layers whose K has wide Anchors need about twice as much for K as for V.
struct AnchorPlaneBytes {
  std::size_t k;
  std::size_t v;
};

/// Not thread-safe for the same plane; different ones are independent.
class AnchorCache {
 public:
  /// Allocates planes for K and V of all layers of `blocks` blocks. RESOURCE_EXHAUSTED naming the size.
  static Result<AnchorCache> create(int layers, int blocks, AnchorPlaneBytes plane_bytes);

  /// Bytes of one block over all layers.
  static std::int64_t block_bytes(int layers, AnchorPlaneBytes plane_bytes);

  /// [plane_bytes of its part], starting on a cache line.
  std::span<std::byte> plane(int layer, BlockId block, KvPart part);
  std::span<const std::byte> plane(int layer, BlockId block, KvPart part) const;

 private:
  AnchorCache(int blocks, AnchorPlaneBytes plane_bytes, HostBuffer memory);
  std::size_t offset(int layer, BlockId block, KvPart part) const;
  std::size_t size(KvPart part) const { return part == KvPart::kK ? plane_bytes_.k : plane_bytes_.v; }

  int blocks_;
  AnchorPlaneBytes plane_bytes_;
  HostBuffer memory_;
};

}  // namespace lynx::kv
