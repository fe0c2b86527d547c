#include "attention/anchor_planes.h"

#include <cassert>

#include "quant/plane_kernels.h"
#include "quant/plane_unit.h"

namespace lynx::attention {

static_assert(kSinks == quant::kSinkTokens && kBlock == quant::kPlaneBlockTokens);

AnchorHead anchor_head(const AnchorView& anchors, const kv::KvShape& shape, AnchorPlace place, kv::KvPart part) {
  const bool is_k = part == kv::KvPart::kK;
  const bool wide = is_k && anchors.wide_k;
  const quant::PlaneUnit unit{is_k ? quant::PlanePart::kK : quant::PlanePart::kV, shape.kv_heads, shape.head_dim, place.first_block,
                              wide};
  const quant::AnchorLayout layout = quant::anchor_layout(unit);
  const std::span<const std::byte> plane = anchors.planes->plane(place.layer, place.block, part);
  assert(plane.size() >= layout.bytes);
  const std::size_t group = quant::group_of(unit, place.kv_head, 0, 0);
  const std::size_t code = quant::slot_of(unit, place.kv_head, 0, 0) / 2;
  const std::size_t sink = quant::plane_size(place.kv_head * kSinks * shape.head_dim) * sizeof(Bf16);
  const std::byte* const base = plane.data();
  return {reinterpret_cast<const std::uint8_t*>(base + layout.scales_at + group),
          reinterpret_cast<const std::int8_t*>(base + layout.zeros_at + group),
          reinterpret_cast<const std::uint8_t*>(base + layout.codes_at + code),
          wide ? reinterpret_cast<const std::uint8_t*>(base + layout.residuals_at + code) : nullptr,
          place.first_block ? reinterpret_cast<const Bf16*>(base + layout.sinks_at + sink) : nullptr};
}

}  // namespace lynx::attention
