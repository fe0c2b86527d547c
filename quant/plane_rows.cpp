#include "quant/plane_rows.h"

#include <cstring>

namespace lynx::quant {

PlaneRows plane_rows(const PlaneUnit& unit) {
  const int channels = stored_channels(unit);
  PlaneRows rows{};
  rows.heads = unit.heads;
  rows.slots = unit_slots(unit);
  rows.groups_of_head = static_cast<int>(unit_groups(unit)) / unit.heads;
  rows.layout = anchor_layout(unit);
  if (unit.part == PlanePart::kK) {
    rows.outers = kPlaneBlockTokens / 16;
    rows.inners = channels / 2;
    rows.grouped_inners = unit.head_dim / 2;
    rows.inner_step = 1;
    rows.first_slots = 2 * first_token(unit);
    rows.last_slots = rows.outers * 32;
  } else {
    rows.outers = channels / 16;
    rows.inners = kPlaneBlockTokens / 2;
    rows.grouped_inners = rows.inners;
    rows.first_inner = first_token(unit) / 2;
    rows.inner_step = v_token_groups(unit);
    rows.last_slots = 2 * unit.head_dim;
  }
  return rows;
}

void copy_sinks(const PlaneUnit& unit, const Bf16* values, std::byte* anchor) {
  for_each_sink(unit, [&](std::size_t slot) {
    std::memcpy(anchor, &values[slot], sizeof(Bf16));
    anchor += sizeof(Bf16);
  });
}

void place_sinks(const PlaneUnit& unit, const std::byte* anchor, Bf16* values) {
  for_each_sink(unit, [&](std::size_t slot) {
    std::memcpy(&values[slot], anchor, sizeof(Bf16));
    anchor += sizeof(Bf16);
  });
}

}  // namespace lynx::quant
