#pragma once

// The Anchor and the int8 Residual of one unit, by a team of threads that share the work: a thread block of a GPU, or one thread of
// the CPU, where the tests hold it against quant/plane_codec.h. A Team has first(), step() and sync().

#include <cstddef>
#include <cstdint>

#include "device/bf16_math.h"
#include "device/portability.h"
#include "quant/plane_kernels.h"
#include "quant/plane_math.h"
#include "quant/plane_unit.h"

namespace lynx::quant {

LYNX_HD inline void store_plane_word(std::byte* at, std::uint32_t word) {
  at[0] = static_cast<std::byte>(word);
  at[1] = static_cast<std::byte>(word >> 8);
}
LYNX_HD inline std::uint32_t load_plane_word(const std::byte* at) {
  return static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8;
}

/// An Anchor, and the nibbles that make the int8 view of it; null for the anchor view.
struct PlaneView {
  PlaneUnit unit;
  AnchorLayout layout;
  const std::byte* anchor;
  const std::byte* residual;

  LYNX_HD static int nibble(const std::byte* nibbles, std::size_t slot) {
    return static_cast<int>(nibbles[slot / 2]) >> (slot % 2 * 4) & 15;
  }
  LYNX_HD std::size_t group(const SlotPlace& place) const { return group_of(unit, place.head, place.token, place.channel); }
  LYNX_HD int zero(std::size_t group) const {
    return static_cast<std::int8_t>(static_cast<std::uint8_t>(anchor[layout.zeros_at + group]));
  }
  LYNX_HD int level(std::size_t slot, std::size_t group) const {
    const int level = nibble(anchor + layout.codes_at, slot) + zero(group);
    return residual == nullptr ? level : int8_level(level, nibble(residual, slot));
  }
  LYNX_HD float scale(std::size_t group) const {
    const float scale = ue5m3_to_float(static_cast<std::uint8_t>(anchor[layout.scales_at + group]));
    return residual == nullptr ? scale : scale / kInt8Steps;
  }
  LYNX_HD Bf16 sink(const SlotPlace& place) const {
    const int index = (place.head * kSinkTokens + place.token) * unit.head_dim + place.channel;
    return static_cast<Bf16>(load_plane_word(anchor + layout.sinks_at + plane_size(index) * sizeof(Bf16)));
  }
  LYNX_HD bool is_sink(const SlotPlace& place) const { return place.token < first_token(unit) && place.channel < unit.head_dim; }
};

/// `residual`: nullptr reads the Anchor alone, but for a wide one, whose view is the int8 view.
LYNX_HD inline PlaneView plane_view(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual) {
  const AnchorLayout layout = anchor_layout(unit);
  return {unit, layout, anchor, unit.wide_anchor ? anchor + layout.residuals_at : residual};
}

/// Scale and zero of one group.
LYNX_HD inline void encode_group(const PlaneUnit& unit, const AnchorLayout& layout, const Bf16* values, std::size_t group,
                                 std::byte* anchor) {
  const GroupExtent extent = group_extent(unit, static_cast<int>(group % (unit_groups(unit) / plane_size(unit.heads))));
  const int head = static_cast<int>(group / (unit_groups(unit) / plane_size(unit.heads)));
  float lo = bits_to_float(0x7f7fffffu);
  float hi = -lo;
  for (int token = extent.first_token; token < extent.end_token; ++token) {
    for (int channel = extent.first_channel; channel < extent.end_channel; ++channel) {
      const float x = anchor_input(values[slot_of(unit, head, token, channel)]);
      lo = x < lo ? x : lo;
      hi = x > hi ? x : hi;
    }
  }
  if (lo > hi) lo = hi = 0;
  const std::uint8_t scale = anchor_scale(lo, hi);
  anchor[layout.scales_at + group] = static_cast<std::byte>(scale);
  anchor[layout.zeros_at + group] = static_cast<std::byte>(anchor_zero(lo, ue5m3_to_float(scale)));
}

/// One byte of int8 residuals, of the slots 2 · pair and 2 · pair + 1.
LYNX_HD inline std::byte int8_pair(const PlaneView& view, const Bf16* values, std::size_t pair) {
  unsigned byte = 0;
  for (unsigned i = 0; i < 2; ++i) {
    const std::size_t slot = 2 * pair + i;
    const SlotPlace place = place_of(view.unit, slot);
    if (!is_coded(view.unit, place)) continue;
    const std::size_t group = view.group(place);
    const int residual = int8_residual(anchor_input(values[slot]), view.level(slot, group), view.scale(group));
    byte |= static_cast<unsigned>(residual + 8) << (4 * i);
  }
  return static_cast<std::byte>(byte);
}

template <class Team>
LYNX_HD inline void team_encode_anchor(const Team& team, const PlaneUnit& unit, const Bf16* values, std::byte* anchor) {
  const PlaneView view{unit, anchor_layout(unit), anchor, nullptr};
  for (std::size_t i = team.first(); i < unit_groups(unit); i += team.step()) encode_group(unit, view.layout, values, i, anchor);
  const std::size_t sinks = plane_size(unit.heads) * plane_size(first_token(unit)) * plane_size(unit.head_dim);
  for (std::size_t i = team.first(); i < sinks; i += team.step()) {
    const int channel = static_cast<int>(i) % unit.head_dim;
    const int token = static_cast<int>(i) / unit.head_dim % kSinkTokens;
    const int head = static_cast<int>(i) / unit.head_dim / kSinkTokens;
    store_plane_word(anchor + view.layout.sinks_at + i * sizeof(Bf16), values[slot_of(unit, head, token, channel)]);
  }
  team.sync();
  for (std::size_t pair = team.first(); pair < unit_slots(unit) / 2; pair += team.step()) {
    unsigned byte = 0;
    for (unsigned i = 0; i < 2; ++i) {
      const std::size_t slot = 2 * pair + i;
      const SlotPlace place = place_of(unit, slot);
      if (!is_coded(unit, place)) continue;
      const std::size_t group = view.group(place);
      byte |= static_cast<unsigned>(anchor_code(anchor_input(values[slot]), view.scale(group), view.zero(group))) << (4 * i);
    }
    anchor[view.layout.codes_at + pair] = static_cast<std::byte>(byte);
    if (unit.wide_anchor) anchor[view.layout.residuals_at + pair] = int8_pair(view, values, pair);
  }
}

template <class Team>
LYNX_HD inline void team_encode_int8(const Team& team, const PlaneUnit& unit, const std::byte* anchor, const Bf16* values,
                                     std::byte* residual) {
  const PlaneView view{unit, anchor_layout(unit), anchor, nullptr};
  for (std::size_t pair = team.first(); pair < unit_slots(unit) / 2; pair += team.step()) {
    residual[pair] = int8_pair(view, values, pair);
  }
}

/// The anchor view, or with a residual the int8 view.
template <class Team>
LYNX_HD inline void team_decode_view(const Team& team, const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual,
                                     Bf16* values) {
  const PlaneView view = plane_view(unit, anchor, residual);
  for (std::size_t slot = team.first(); slot < unit_slots(unit); slot += team.step()) {
    const SlotPlace place = place_of(unit, slot);
    Bf16 value = 0;
    if (is_coded(unit, place)) {
      const std::size_t group = view.group(place);
      value = level_to_bf16(view.level(slot, group), view.scale(group));
    } else if (view.is_sink(place)) {
      value = view.sink(place);
    }
    values[slot] = value;
  }
}

}  // namespace lynx::quant
