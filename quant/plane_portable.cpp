// The planes in plain loops.

#include <algorithm>
#include <cstring>
#include <span>

#include "quant/lossless_kernels.h"
#include "quant/plane_kernels.h"
#include "quant/plane_math.h"
#include "quant/plane_team.h"
#include "quant/residual_code.h"
#include "quant/residual_math.h"

namespace lynx::quant {
namespace {

/// Of nibbles that are 0.
void set_nibble(std::byte* nibbles, std::size_t slot, int value) {
  nibbles[slot / 2] |= static_cast<std::byte>(value << (slot % 2 * 4));
}

void encode_int8_residual(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual) {
  const PlaneView levels{unit, anchor_layout(unit), anchor, nullptr};
  std::memset(residual, 0, unit_slots(unit) / 2);
  for_each_value(unit, [&](std::size_t slot, std::size_t group) {
    const float x = anchor_input(values[slot]);
    set_nibble(residual, slot, int8_residual(x, levels.level(slot, group), levels.scale(group)) + 8);
  });
}

void encode_anchor(const PlaneUnit& unit, const Bf16* values, std::byte* anchor) {
  const AnchorLayout layout = anchor_layout(unit);
  std::byte* sink = anchor;
  for_each_sink(unit, [&](std::size_t slot) {
    store_plane_word(sink, values[slot]);
    sink += sizeof(Bf16);
  });
  for (std::size_t group = 0; group < unit_groups(unit); ++group) encode_group(unit, layout, values, group, anchor);
  const PlaneView levels{unit, anchor_layout(unit), anchor, nullptr};
  std::byte* codes = anchor + layout.codes_at;
  std::memset(codes, 0, unit_slots(unit) / 2);
  for_each_value(unit, [&](std::size_t slot, std::size_t group) {
    set_nibble(codes, slot, anchor_code(anchor_input(values[slot]), levels.scale(group), levels.zero(group)));
  });
  if (unit.wide_anchor) encode_int8_residual(unit, anchor, values, anchor + layout.residuals_at);
}

/// Sinks, and zeros for the rest.
void begin_values(const PlaneUnit& unit, const std::byte* anchor, Bf16* values) {
  std::fill_n(values, unit_slots(unit), Bf16{0});
  for_each_sink(unit, [&](std::size_t slot) {
    values[slot] = static_cast<Bf16>(load_plane_word(anchor));
    anchor += sizeof(Bf16);
  });
}

void decode_view(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, Bf16* view) {
  const PlaneView levels{unit, anchor_layout(unit), anchor, residual};
  begin_values(unit, anchor, view);
  for_each_value(unit, [&](std::size_t slot, std::size_t group) {
    view[slot] = level_to_bf16(levels.level(slot, group), levels.scale(group));
  });
}

/// Writes the lanes forwards: a word's place is kept when a decoder would take it, and its bits come later.
class LaneWriter {
 public:
  explicit LaneWriter(std::span<std::byte> out)
      : begin_(out.data()), words_(begin_), escapes_(begin_ + out.size()), end_(escapes_) {}

  /// False when `out` is full.
  bool begin_row() {
    for (Lane& lane : lanes_) {
      if (lane.room >= kWordBits) continue;
      if (!fits()) return false;
      lane.open[lane.opened++] = words_;
      words_ += kWordBytes;
      lane.room += kWordBits;
    }
    return true;
  }
  void put(std::size_t index, std::uint32_t bits, unsigned length) {
    Lane& lane = lanes_[index];
    lane.bits = lane.bits << length | bits;
    lane.held += length;
    lane.room -= length;
    if (lane.held < kWordBits) return;
    lane.held -= kWordBits;
    store_plane_word(lane.open[0], lane.bits >> lane.held);
    lane.open[0] = lane.open[1];
    --lane.opened;
  }
  void escape(Bf16 value) {
    full_ = full_ || !fits();
    if (full_) return;
    escapes_ -= sizeof(Bf16);
    store_plane_word(escapes_, value);
  }
  /// All bytes; 0 if `out` was full.
  std::size_t finish() {
    if (full_ || !fits()) return 0;
    for (Lane& lane : lanes_) {
      for (int i = 0; i < lane.opened; ++i) store_plane_word(lane.open[i], i == 0 ? lane.bits << (kWordBits - lane.held) : 0);
    }
    const auto escaped = static_cast<std::size_t>(end_ - escapes_);
    std::memmove(words_, escapes_, escaped);
    return static_cast<std::size_t>(words_ - begin_) + escaped;
  }

 private:
  struct Lane {
    std::uint32_t bits = 0;  ///< The lower `held` ones are not written yet.
    unsigned held = 0;
    unsigned room = 0;  ///< Of the words taken.
    std::byte* open[2] = {};
    int opened = 0;
  };

  bool fits() const { return escapes_ - words_ >= static_cast<std::ptrdiff_t>(kWordBytes); }

  Lane lanes_[kLanes];
  std::byte* begin_;
  std::byte* words_;
  std::byte* escapes_;
  std::byte* end_;
  bool full_ = false;
};

std::size_t encode_exact(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual,
                         std::size_t bytes) {
  const ResidualCode& code = residual_code(unit.wide_anchor);
  const PlaneView levels = plane_view(unit, anchor, nullptr);
  LaneWriter lanes({residual, bytes});
  bool room = true;
  for_each_row(
      unit, [&] { return room = lanes.begin_row(); },
      [&](std::size_t slot, std::size_t group) {
        const int level = levels.level(slot, group);
        const int index = residual_context(level < 0 ? -level : level);
        const ResidualContext& context = code.contexts[index];
        const int raw_bits = residual_raw_bits(index);
        const ResidualSymbol symbol =
            residual_symbol(context.lowest, context.escape, raw_bits, values[slot], level, levels.scale(group));
        const unsigned length = context.code.lengths.of[symbol.index];
        const std::uint32_t word = context.code.words[symbol.index];
        if (symbol.index == context.escape) {
          lanes.put(slot % kLanes, word, length);
          lanes.escape(values[slot]);
        } else {
          lanes.put(slot % kLanes, word << raw_bits | symbol.raw, length + static_cast<unsigned>(raw_bits));
        }
      });
  return room ? lanes.finish() : 0;
}

class LaneReader {
 public:
  explicit LaneReader(std::span<const std::byte> in) : words_(in.data()), escapes_(words_ + in.size()) {}

  bool begin_row() {
    for (Lane& lane : lanes_) {
      if (lane.held >= kWordBits) continue;
      if (!left()) return false;
      lane.bits |= load_plane_word(words_) << (kWordBits - lane.held);
      words_ += kWordBytes;
      lane.held += kWordBits;
    }
    return true;
  }
  std::uint32_t next_byte(std::size_t index) const { return lanes_[index].bits >> 24; }
  std::uint32_t take(std::size_t index, unsigned length) {
    Lane& lane = lanes_[index];
    const auto taken = static_cast<std::uint32_t>(std::uint64_t{lane.bits} << length >> 32);
    lane.bits <<= length;
    lane.held -= length;
    return taken;
  }
  bool take_escape(Bf16* value) {
    if (!left()) return false;
    escapes_ -= sizeof(Bf16);
    *value = static_cast<Bf16>(load_plane_word(escapes_));
    return true;
  }
  bool finished() const {
    return words_ == escapes_ && std::all_of(lanes_, lanes_ + kLanes, [](const Lane& lane) { return lane.bits == 0; });
  }

 private:
  struct Lane {
    std::uint32_t bits = 0;  ///< The upper ones are next.
    unsigned held = 0;
  };

  bool left() const { return escapes_ - words_ >= static_cast<std::ptrdiff_t>(kWordBytes); }

  Lane lanes_[kLanes];
  const std::byte* words_;
  const std::byte* escapes_;
};

bool decode_exact(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, std::size_t bytes, Bf16* values) {
  const ResidualCode& code = residual_code(unit.wide_anchor);
  const PlaneView levels = plane_view(unit, anchor, nullptr);
  LaneReader lanes({residual, bytes});
  bool sound = true;
  begin_values(unit, anchor, values);
  for_each_row(
      unit, [&] { return sound = sound && lanes.begin_row(); },
      [&](std::size_t slot, std::size_t group) {
        const int level = levels.level(slot, group);
        const int index = residual_context(level < 0 ? -level : level);
        const ResidualContext& context = code.contexts[index];
        const std::size_t lane = slot % kLanes;
        const std::uint32_t next = lanes.next_byte(lane);
        ResidualSymbol symbol{context.table.exponents[next], 0};
        lanes.take(lane, context.table.lengths[next / 2]);
        if (symbol.index == context.escape) {
          sound = lanes.take_escape(&values[slot]) && sound;
          return;
        }
        const int raw_bits = residual_raw_bits(index);
        symbol.raw = lanes.take(lane, static_cast<unsigned>(raw_bits));
        values[slot] = residual_value(context.lowest, raw_bits, symbol, level, levels.scale(group));
      });
  return sound && lanes.finished();
}

}  // namespace

const PlaneKernels& portable_plane_kernels() {
  static constexpr PlaneKernels kKernels{encode_anchor, encode_int8_residual, decode_view, encode_exact, decode_exact};
  return kKernels;
}

}  // namespace lynx::quant
