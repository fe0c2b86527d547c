#pragma once

// The exact Residual of one unit by a warp: the 32 lanes of its bit streams are the 32 threads. One code for a GPU's warp and for
// HostWarp, which stands in for it where the tests hold it against quant/plane_codec.h. A Warp has
//   Each<T>: a T of each lane; each(body): body(lane) by every lane; rank(flags, before): how many lanes have the flag, and of each
//   lane how many lower ones; all(flags).

#include <cstddef>
#include <cstdint>

#include "quant/plane_team.h"
#include "quant/residual_code.h"
#include "quant/residual_math.h"

namespace lynx::quant {

inline constexpr int kWarpLanes = 32;
inline constexpr unsigned kPlaneWordBits = 16;

class HostWarp {
 public:
  template <class T>
  struct Each {
    T of[kWarpLanes] = {};
    T& operator[](int lane) { return of[lane]; }
  };
  template <class Body>
  void each(Body body) const {
    for (int lane = 0; lane < kWarpLanes; ++lane) body(lane);
  }
  int rank(const Each<bool>& flags, Each<int>* before) const {
    int count = 0;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      before->of[lane] = count;
      count += flags.of[lane] ? 1 : 0;
    }
    return count;
  }
  bool all(const Each<bool>& flags) const {
    for (const bool flag : flags.of) {
      if (!flag) return false;
    }
    return true;
  }
  void sync() const {}
};

/// A slot's value as the lanes see it.
struct ResidualSlot {
  bool coded;
  std::size_t slot;
  int level;
  float scale;
  int context;
  int raw_bits;
};

LYNX_HD inline ResidualSlot residual_slot(const PlaneView& view, std::size_t slot) {
  const SlotPlace place = place_of(view.unit, slot);
  if (!is_coded(view.unit, place)) return {false, slot, 0, 0, 0, 0};
  const std::size_t group = view.group(place);
  const int level = view.level(slot, group);
  const int context = residual_context(level < 0 ? -level : level);
  return {true, slot, level, view.scale(group), context, residual_raw_bits(context)};
}

/// One lane's stream being written: a word's place is kept when a decoder would take it, and its bits come later.
struct WrittenLane {
  std::uint32_t bits;  ///< The lower `held` ones are not written yet.
  unsigned held;
  unsigned room;  ///< Of the words taken.
  int open[2];    ///< Their places.
  int opened;

  LYNX_HD void take(int word) {
    open[opened++] = word;
    room += kPlaneWordBits;
  }
  LYNX_HD void put(std::byte* words, std::uint32_t more, unsigned length) {
    bits = bits << length | more;
    held += length;
    room -= length;
    if (held < kPlaneWordBits) return;
    held -= kPlaneWordBits;
    store_plane_word(words + 2 * open[0], bits >> held);
    open[0] = open[1];
    --opened;
  }
  LYNX_HD void finish(std::byte* words) const {
    if (opened > 0) store_plane_word(words + 2 * open[0], bits << (kPlaneWordBits - held));
    if (opened > 1) store_plane_word(words + 2 * open[1], 0);
  }
};

/// Words from `from` on come to lie at `to`, which is before it.
template <class Warp>
LYNX_HD inline void warp_move_down(const Warp& warp, std::byte* words, int to, int from, int count) {
  for (int done = 0; done < count; done += kWarpLanes) {
    typename Warp::template Each<std::uint32_t> moved{};
    warp.each([&](int lane) {
      if (done + lane < count) moved[lane] = load_plane_word(words + 2 * (from + done + lane));
    });
    warp.sync();
    warp.each([&](int lane) {
      if (done + lane < count) store_plane_word(words + 2 * (to + done + lane), moved[lane]);
    });
    warp.sync();
  }
}

/// Bytes written to `residual` [exact_residual_bound(unit)]; 0 if BF16 would not be longer. The same in all lanes.
template <class Warp>
LYNX_HD inline std::size_t warp_encode_exact(const Warp& warp, const ResidualCode& code, const PlaneUnit& unit,
                                             const std::byte* anchor, const Bf16* values, std::byte* residual) {
  const PlaneView view = plane_view(unit, anchor, nullptr);
  const int most = static_cast<int>(unit_slots(unit));  // Words, and escapes, which lie at the end and grow downwards.
  int words = 0;
  int escapes = 0;
  typename Warp::template Each<WrittenLane> lanes{};
  typename Warp::template Each<bool> flags{};
  typename Warp::template Each<int> before{};
  for (std::size_t row = 0; row < unit_slots(unit); row += kWarpLanes) {
    warp.each([&](int lane) { flags[lane] = lanes[lane].room < kPlaneWordBits; });
    const int taken = warp.rank(flags, &before);
    if (words + taken + escapes > most) return 0;
    warp.each([&](int lane) {
      if (flags[lane]) lanes[lane].take(words + before[lane]);
    });
    words += taken;
    warp.each([&](int lane) {
      const ResidualSlot at = residual_slot(view, row + plane_size(lane));
      flags[lane] = false;
      if (!at.coded) return;
      const ResidualContext& context = code.contexts[at.context];
      const ResidualSymbol symbol =
          residual_symbol(context.lowest, context.escape, at.raw_bits, values[at.slot], at.level, at.scale);
      flags[lane] = symbol.index == context.escape;
      const unsigned raw_bits = flags[lane] ? 0 : static_cast<unsigned>(at.raw_bits);
      lanes[lane].put(residual, std::uint32_t{context.code.words[symbol.index]} << raw_bits | symbol.raw,
                      context.code.lengths.of[symbol.index] + raw_bits);
    });
    const int escaped = warp.rank(flags, &before);
    if (words + escapes + escaped > most) return 0;
    warp.each([&](int lane) {
      if (flags[lane]) store_plane_word(residual + 2 * (most - 1 - escapes - before[lane]), values[row + plane_size(lane)]);
    });
    escapes += escaped;
  }
  if (words + escapes >= most) return 0;
  warp.each([&](int lane) { lanes[lane].finish(residual); });
  warp.sync();
  warp_move_down(warp, residual, words, most - escapes, escapes);
  return 2 * plane_size(words + escapes);
}

struct ReadLane {
  std::uint32_t bits;  ///< The upper ones are next.
  unsigned held;

  LYNX_HD std::uint32_t take(unsigned length) {
    const auto taken = static_cast<std::uint32_t>(std::uint64_t{bits} << length >> 32);
    bits <<= length;
    held -= length;
    return taken;
  }
};

/// False if `residual`, `bytes` long, is not sound; values are anything then. The same in all lanes.
template <class Warp>
LYNX_HD inline bool warp_decode_exact(const Warp& warp, const ResidualCode& code, const PlaneUnit& unit, const std::byte* anchor,
                                      const std::byte* residual, std::size_t bytes, Bf16* values) {
  if (bytes >= unit_slots(unit) * sizeof(Bf16) || bytes % sizeof(Bf16) != 0) return false;
  const PlaneView view = plane_view(unit, anchor, nullptr);
  const int all = static_cast<int>(bytes / 2);
  int words = 0;
  int escapes = 0;
  typename Warp::template Each<ReadLane> lanes{};
  typename Warp::template Each<bool> flags{};
  typename Warp::template Each<int> before{};
  for (std::size_t row = 0; row < unit_slots(unit); row += kWarpLanes) {
    warp.each([&](int lane) { flags[lane] = lanes[lane].held < kPlaneWordBits; });
    const int taken = warp.rank(flags, &before);
    if (words + taken + escapes > all) return false;
    warp.each([&](int lane) {
      if (!flags[lane]) return;
      lanes[lane].bits |= load_plane_word(residual + 2 * (words + before[lane])) << (kPlaneWordBits - lanes[lane].held);
      lanes[lane].held += kPlaneWordBits;
    });
    words += taken;
    warp.each([&](int lane) {
      const ResidualSlot at = residual_slot(view, row + plane_size(lane));
      flags[lane] = false;
      if (!at.coded) {
        const SlotPlace place = place_of(unit, at.slot);
        values[at.slot] = view.is_sink(place) ? view.sink(place) : Bf16{0};
        return;
      }
      const ResidualContext& context = code.contexts[at.context];
      const std::uint32_t next = lanes[lane].bits >> 24;
      ResidualSymbol symbol{context.table.exponents[next], 0};
      lanes[lane].take(context.table.lengths[next / 2]);
      flags[lane] = symbol.index == context.escape;
      if (flags[lane]) return;
      symbol.raw = lanes[lane].take(static_cast<unsigned>(at.raw_bits));
      values[at.slot] = residual_value(context.lowest, at.raw_bits, symbol, at.level, at.scale);
    });
    const int escaped = warp.rank(flags, &before);
    if (words + escapes + escaped > all) return false;
    warp.each([&](int lane) {
      if (!flags[lane]) return;
      values[row + plane_size(lane)] = static_cast<Bf16>(load_plane_word(residual + 2 * (all - 1 - escapes - before[lane])));
    });
    escapes += escaped;
  }
  warp.each([&](int lane) { flags[lane] = lanes[lane].bits == 0; });
  return words + escapes == all && warp.all(flags);
}

}  // namespace lynx::quant
