#pragma once

// Where the values of a unit (K or V of one block of one layer) lie, and which share a scale. docs/plane_format.md has both orders;
// kv/kv_units.h gathers units.

#include <cstddef>
#include <cstdint>

namespace lynx::quant {

inline constexpr int kPlaneBlockTokens = 64;
inline constexpr int kSinkTokens = 4;      ///< Positions 0 … 3 travel raw.
inline constexpr int kGroupChannels = 64;  ///< Of V that share a scale, at most.

enum class PlanePart { kK, kV };

/// A unit that is coded in planes: of a whole block. docs/adr/0007-tail-block-travels-raw.md says why there are no others.
struct PlaneUnit {
  PlanePart part;
  int heads;         ///< KV heads.
  int head_dim;      ///< Even.
  bool first_block;  ///< Holds the sink tokens.
  bool wide_anchor;  ///< The Anchor has 8 bits: for K of layers with outlier channels. It has no int8 Residual then.
};

/// How many of a prompt's leading blocks are coded in planes. The last one, if only partly filled, travels raw, and so does a
/// prompt that fits into one block.
constexpr int coded_blocks(int prompt_tokens) {
  return prompt_tokens <= kPlaneBlockTokens ? 0 : prompt_tokens / kPlaneBlockTokens;
}

constexpr std::size_t plane_size(int value) {
  return static_cast<std::size_t>(value);
}

constexpr int stored_channels(const PlaneUnit& unit) {
  return (unit.head_dim + 31) / 32 * 32;
}
constexpr int first_token(const PlaneUnit& unit) {
  return unit.first_block ? kSinkTokens : 0;
}

/// Slots of the unit, those beyond head_dim included.
constexpr std::size_t unit_slots(const PlaneUnit& unit) {
  return plane_size(unit.heads) * plane_size(stored_channels(unit)) * plane_size(kPlaneBlockTokens);
}

/// Groups a token's V is cut into, per head.
constexpr int v_token_groups(const PlaneUnit& unit) {
  return (unit.head_dim + kGroupChannels - 1) / kGroupChannels;
}

constexpr std::size_t unit_groups(const PlaneUnit& unit) {
  const int per_head = unit.part == PlanePart::kK ? unit.head_dim : kPlaneBlockTokens * v_token_groups(unit);
  return plane_size(unit.heads) * plane_size(per_head);
}

/// K: one of (head, channel). V: one of (head, token, 64 channels).
constexpr std::size_t group_of(const PlaneUnit& unit, int head, int token, int channel) {
  if (unit.part == PlanePart::kK) return plane_size(head * unit.head_dim + channel);
  return plane_size((head * kPlaneBlockTokens + token) * v_token_groups(unit) + channel / kGroupChannels);
}

/// Which of a head's tokens and channels are a group.
struct GroupExtent {
  int first_token, end_token;
  int first_channel, end_channel;
};

constexpr GroupExtent group_extent(const PlaneUnit& unit, int group_of_head) {
  if (unit.part == PlanePart::kK) return {first_token(unit), kPlaneBlockTokens, group_of_head, group_of_head + 1};
  const int token = group_of_head / v_token_groups(unit);
  const int channel = group_of_head % v_token_groups(unit) * kGroupChannels;
  const int end_token = token < first_token(unit) ? token : token + 1;  // Sinks are not in their groups.
  const int end_channel = channel + kGroupChannels < unit.head_dim ? channel + kGroupChannels : unit.head_dim;
  return {token, end_token, channel, end_channel};
}

constexpr std::size_t slot_of(const PlaneUnit& unit, int head, int token, int channel) {
  const std::size_t head_at = plane_size(head) * plane_size(stored_channels(unit)) * plane_size(kPlaneBlockTokens);
  if (unit.part == PlanePart::kK) {
    const int row = token / 16 * (stored_channels(unit) / 2) + channel / 2;
    return head_at + plane_size(row * 32 + token % 16 * 2 + channel % 2);
  }
  const int row = channel / 16 * (kPlaneBlockTokens / 2) + token / 2;
  return head_at + plane_size(row * 32 + channel % 16 * 2 + token % 2);
}

struct SlotPlace {
  int head;
  int token;
  int channel;  ///< Up to stored_channels.
};

/// The way back from slot_of.
constexpr SlotPlace place_of(const PlaneUnit& unit, std::size_t slot) {
  const std::size_t of_head = plane_size(stored_channels(unit)) * plane_size(kPlaneBlockTokens);
  const int head = static_cast<int>(slot / of_head);
  const int in_head = static_cast<int>(slot % of_head);
  const bool is_k = unit.part == PlanePart::kK;
  const int inner = is_k ? stored_channels(unit) / 2 : kPlaneBlockTokens / 2;
  const int sixteenth = in_head / 32 / inner * 16 + in_head % 32 / 2;
  const int of_pair = in_head / 32 % inner * 2 + in_head % 2;
  return is_k ? SlotPlace{head, sixteenth, of_pair} : SlotPlace{head, of_pair, sixteenth};
}

/// Neither a sink's nor beyond the model's channels.
constexpr bool is_coded(const PlaneUnit& unit, const SlotPlace& place) {
  return place.token >= first_token(unit) && place.channel < unit.head_dim;
}

/// In slot order, row by row of 32: row_begin(), then value(slot, group) for each of the row's coded slots (those of the model's
/// channels, sinks not).
template <class RowBegin, class Value>
void for_each_row(const PlaneUnit& unit, RowBegin row_begin, Value value) {
  const bool is_k = unit.part == PlanePart::kK;
  const int outer = is_k ? kPlaneBlockTokens / 16 : stored_channels(unit) / 16;  // K: groups of tokens. V: of channels.
  const int inner = is_k ? stored_channels(unit) / 2 : kPlaneBlockTokens / 2;    // Pairs of the other.
  std::size_t slot = 0;
  for (int head = 0; head < unit.heads; ++head) {
    for (int row = 0; row < outer * inner; ++row) {
      if (!row_begin()) return;
      for (int i = 0; i < 32; ++i, ++slot) {
        const int sixteenth = row / inner * 16 + i / 2;
        const int of_pair = row % inner * 2 + i % 2;
        const int token = is_k ? sixteenth : of_pair;
        const int channel = is_k ? of_pair : sixteenth;
        if (token < first_token(unit) || channel >= unit.head_dim) continue;
        value(slot, group_of(unit, head, token, channel));
      }
    }
  }
}

template <class Value>
void for_each_value(const PlaneUnit& unit, Value value) {
  for_each_row(
      unit, [] { return true; }, value);
}

/// Slots of the sink tokens, [head][token][channel].
template <class Value>
void for_each_sink(const PlaneUnit& unit, Value value) {
  for (int head = 0; head < unit.heads; ++head) {
    for (int token = 0; token < first_token(unit); ++token) {
      for (int channel = 0; channel < unit.head_dim; ++channel) value(slot_of(unit, head, token, channel));
    }
  }
}

}  // namespace lynx::quant
