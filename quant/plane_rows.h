#pragma once

// A unit as the vector paths walk it. A row is 32 slots, and of K as of V its even slots are of one group and its odd ones of
// another: K's rows hold a pair of channels of 16 tokens, V's a pair of tokens of 16 channels. Two scales a row are all there is.

#include <cstddef>
#include <cstdint>

#include "quant/plane_kernels.h"

namespace lynx::quant {

inline constexpr int kOutersOfGroup = 4;  ///< Rows that share their groups: all 64 tokens of K, 64 channels of V.

/// A head's rows are outers × inners: groups of 16 by pairs of the other, in that order.
struct PlaneRows {
  int heads;
  int outers;
  int inners;
  int grouped_inners;  ///< The first ones, whose slots have groups: pairs of K's channels beyond head_dim do not.
  int first_inner;     ///< Those before have groups, but nothing coded: V's sinks.
  int inner_step;      ///< From the even slots' group to the odd ones', and half of the way to the next inner's.
  int groups_of_head;  ///< The even slots' group is head · groups_of_head + inner · 2 · inner_step + outer div 4.
  int first_slots;     ///< Of outer 0 that are not coded: K's sinks.
  int last_slots;      ///< Coded slots of all outers together, counting 32 a row: V's channels beyond head_dim are not.
  std::size_t slots;
  AnchorLayout layout;
};

PlaneRows plane_rows(const PlaneUnit& unit);

/// Sink tokens' values to the head of an Anchor, and back.
void copy_sinks(const PlaneUnit& unit, const Bf16* values, std::byte* anchor);
void place_sinks(const PlaneUnit& unit, const std::byte* anchor, Bf16* values);

}  // namespace lynx::quant
