#pragma once

// The exact Residual on vectors of any width: as plane_vector.h, which it adds to. The row's 32 lanes are registers.

#include "quant/lossless_kernels.h"
#include "quant/plane_vector.h"
#include "quant/residual_tables.h"

namespace lynx::quant {
namespace {

static_assert(kLanes == kRowSlots);

/// What some lanes' Residuals refer to: residual_tables.h has Y.
template <class V>
struct LanePlaces {
  using Int = typename V::Int;

  Int level;
  Int y;
  Int context;
  typename V::Mask is_zero;
  Int log2;  ///< ⌊log2 |level|⌋ + 127; 0 for level 0.

  [[gnu::always_inline]] LanePlaces(Int of_level, typename V::Float scale) : level(of_level) {
    const Int magnitude = V::magnitude(level);
    const auto as_float = V::to_float(magnitude);
    const Int exponent = V::bit_and(V::template shift_right<16>(V::bits(scale)), V::set(0x7f80));
    is_zero = V::equal(level, V::set(0));
    y = V::select(is_zero, V::sub(exponent, V::set(0x80)), V::bf16_of(V::mul(as_float, scale)));
    // Exponent and the mantissa's first bit count the half octaves; below 16 there are more of them than levels.
    const Int half_octaves = V::template shift_right<22>(V::bits(as_float));
    context = V::min_unsigned(magnitude, V::sub(half_octaves, V::set(2 * (127 + 4) - 16)));
    log2 = V::template shift_right<1>(half_octaves);
  }
  [[gnu::always_inline]] Int raw_bits() const {
    return V::min(V::max(V::sub(V::set(127 + 3), log2), V::set(0)), V::set(kZeroRawBits));
  }
};

template <class V>
struct ExactPath {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Masks = RowMasks<V>;

  static constexpr int kGroups = kRowSlots / V::kWidth;
  static constexpr std::size_t kGroupCodes = kRowCodes / kGroups;
  static constexpr std::size_t kMostEscapes = 2048;  ///< Units with more, which hardly pay, are left to the portable path.

  /// A row's levels and scale, of the int8 view in a wide Anchor.
  struct Row {
    const std::byte* codes;
    const std::byte* residuals;
    Float scale;
    Int zero;
    bool wide;

    [[gnu::always_inline]] Row(const AnchorLayout& layout, const std::byte* anchor, std::size_t row, const PairOfGroups<V>& pair,
                               bool is_wide)
        : codes(anchor + layout.codes_at + row * kRowCodes),
          residuals(anchor + layout.residuals_at + row * kRowCodes),
          scale(is_wide ? V::mul(pair.scale, V::broadcast(kStepOfInt8)) : pair.scale),
          zero(pair.zero),
          wide(is_wide) {}
    [[gnu::always_inline]] LanePlaces<V> places(int g) const {
      const auto at = static_cast<std::size_t>(g) * kGroupCodes;
      Int level = V::add(V::load_nibbles(codes + at), zero);
      if (wide) level = V::add(V::template shift_left<4>(level), V::sub(V::load_nibbles(residuals + at), V::set(8)));
      return {level, scale};
    }
  };

  // Encoding. First every slot's bits are put where it has room for them, 16 bits in the Residual's own memory: they are 15 at
  // most, with a 1 before them. Then they go into words, backwards (lossless_scalar_encoder.h says why), which fill that memory
  // from its end on: 32 of them a row, so that a row is overwritten after it was read.

  struct LaneTotals {
    Int all[kGroups];
    Int last_row[kGroups];
  };
  struct Escapes {
    Bf16 values[kMostEscapes + kRowSlots];
    std::size_t count = 0;
  };

  /// A row's bits; its slots that are escapes.
  [[gnu::always_inline]] static std::uint32_t put_row(const ResidualTables& tables, const Row& row, const Masks& masks,
                                                      const Bf16* values, Bf16* bits, LaneTotals* totals) {
    Int rests[kGroups];
    Int table_rows[kGroups];
    Int quotients[kGroups];
    Int entries[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const LanePlaces<V> places = row.places(g);
      const Int value = V::load_values(values + g * V::kWidth);
      const Int sign = V::bit_and(V::select(places.is_zero, value, places.level), V::set(0x8000));
      const auto negative_zero = V::both(places.is_zero, V::equal(sign, V::set(0x8000)));
      rests[g] = V::sub(V::bit_xor(value, sign), places.y);
      quotients[g] = V::shift_right_signed(rests[g], places.raw_bits());
      table_rows[g] = V::select(negative_zero, V::set(kNegativeZeroRow), places.context);
    }
    V::look_up_symbols(tables, table_rows, quotients, entries);
    std::uint32_t escapes = 0;
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const Int raw_bits = V::bit_and(entries[g], V::set(7));
      const Int raw = V::bit_and(rests[g], V::sub(V::shift_left(V::set(1), raw_bits), V::set(1)));
      const Int marked = V::bit_or(V::shift_left(V::template shift_right<4>(entries[g]), raw_bits), raw);
      const Int slot = V::select(masks.of[g], marked, V::set(1));
      V::store_values(slot, bits + g * V::kWidth);
      totals->last_row[g] = marked_bits(slot);
      totals->all[g] = V::add(totals->all[g], totals->last_row[g]);
      const Int escaped = V::keep(masks.of[g], V::bit_and(entries[g], V::set(8)));
      escapes |= V::lanes(V::greater(escaped, V::set(0))) << (g * V::kWidth);
    }
    return escapes;
  }
  /// How many bits are behind the 1.
  [[gnu::always_inline]] static Int marked_bits(Int slot) {
    return V::sub(V::template shift_right<23>(V::bits(V::to_float(slot))), V::set(127));
  }

  /// False if there are too many escapes.
  static bool put_rows(const PlaneUnit& unit, const PlaneRows& rows, const std::byte* anchor, const Bf16* values, Bf16* bits,
                       LaneTotals* totals, Escapes* escapes) {
    const ResidualTables& tables = residual_tables(unit.wide_anchor);
    const bool wide = unit.wide_anchor;
    LaneTotals sums;
    for (int g = 0; g < kGroups; ++g) sums.all[g] = V::set(0);
    const bool fits = for_rows<V>(rows, anchor, [&](std::size_t at, const Masks& masks, const PairOfGroups<V>& pair) {
      const Bf16* in = values + at * kRowSlots;
      const Row row(rows.layout, anchor, at, pair, wide);
      std::uint32_t escaped = put_row(tables, row, masks, in, bits + at * kRowSlots, &sums);
      for (; escaped != 0; escaped &= escaped - 1) escapes->values[escapes->count++] = in[__builtin_ctz(escaped)];
      return escapes->count <= kMostEscapes;
    });
    *totals = sums;
    return fits;
  }

  /// How many zero bits follow each lane's last value; all lanes' words.
  static std::size_t pad_lanes(const LaneTotals& totals, std::uint32_t (&padding)[kLanes]) {
    alignas(64) std::int32_t bits[kLanes];
    alignas(64) std::int32_t last_row[kLanes];
    for (int g = 0; g < kGroups; ++g) {
      V::store_ints(totals.all[g], bits + g * V::kWidth);
      V::store_ints(totals.last_row[g], last_row + g * V::kWidth);
    }
    std::size_t words = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      // Whoever has fewer than 16 bits in hand when the last row begins takes a word.
      const auto before = static_cast<std::uint32_t>(bits[lane] - last_row[lane]);
      const std::uint32_t of_lane = 1 + (before + kWordBits - 1) / kWordBits;
      padding[lane] = of_lane * kWordBits - static_cast<std::uint32_t>(bits[lane]);
      words += of_lane;
    }
    return words;
  }

  /// From the rows' bits to words that end at `end`; where they begin.
  static std::uint8_t* write_words(const Bf16* marked, std::size_t rows, const std::uint32_t (&padding)[kLanes],
                                   std::uint8_t* end) {
    Int bits[kGroups];
    Int held[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      bits[g] = V::set(0);
      held[g] = V::load_ints(padding + g * V::kWidth);
    }
    std::uint8_t* words = end;
    for (std::size_t row = rows; row-- > 0;) {
#pragma GCC unroll 4
      for (int g = kGroups - 1; g >= 0; --g) {
        const Int slot = V::load_values(marked + row * kRowSlots + static_cast<std::size_t>(g) * V::kWidth);
        const Int length = marked_bits(slot);
        const auto full = V::greater(V::add(held[g], length), V::set(31));
        V::compress_words(bits[g], full, words);
        words -= static_cast<unsigned>(__builtin_popcount(V::lanes(full))) * kWordBytes;
        bits[g] = V::select(full, V::template shift_right<kWordBits>(bits[g]), bits[g]);
        held[g] = V::sub(held[g], V::keep(full, V::set(kWordBits)));
        const Int unmarked = V::bit_xor(slot, V::shift_left(V::set(1), length));
        bits[g] = V::bit_or(bits[g], V::shift_left(unmarked, held[g]));
        held[g] = V::add(held[g], length);
      }
    }
    for (int g = kGroups - 1; g >= 0; --g) {
      V::compress_words(bits[g], V::mask(0xffffu), words);
      words -= V::kWidth * kWordBytes;
    }
    return words;
  }

  static std::size_t encode_exact(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual,
                                  std::size_t bytes) {
    const PlaneRows rows = plane_rows(unit);
    LaneTotals totals;
    Escapes escapes;
    auto* slots = reinterpret_cast<Bf16*>(residual);
    if (!put_rows(unit, rows, anchor, values, slots, &totals, &escapes)) {
      return portable_plane_kernels().encode_exact(unit, anchor, values, residual, bytes);
    }
    alignas(64) std::uint32_t padding[kLanes];
    const std::size_t word_bytes = pad_lanes(totals, padding) * kWordBytes;
    const std::size_t coded_bytes = word_bytes + escapes.count * sizeof(Bf16);
    if (coded_bytes >= bytes) return 0;
    auto* out = reinterpret_cast<std::uint8_t*>(residual);
    std::memmove(out, write_words(slots, rows.slots / kRowSlots, padding, out + bytes), word_bytes);
    std::uint8_t* escape = out + coded_bytes;
    for (std::size_t i = 0; i < escapes.count; ++i) {
      escape -= sizeof(Bf16);
      std::memcpy(escape, &escapes.values[i], sizeof(Bf16));
    }
    return coded_bytes;
  }

  // Decoding.

  /// Words from the one end of a Residual, escapes from the other.
  struct Source {
    const std::uint8_t* words;
    const std::uint8_t* end;  ///< Of what can be read from `words` on.
    const std::uint8_t* escapes;
    std::ptrdiff_t left;  ///< Bytes of neither.
    std::uint8_t tail[2 * kLanes * kWordBytes] = {};

    Source(const std::byte* residual, std::size_t bytes)
        : words(reinterpret_cast<const std::uint8_t*>(residual)),
          end(words + bytes),
          escapes(end),
          left(static_cast<std::ptrdiff_t>(bytes)) {}
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// A row's words can be read afterwards, the last ones from a copy with zeros behind.
    [[gnu::always_inline]] void prepare_row() {
      constexpr auto kRowWords = static_cast<std::ptrdiff_t>(kLanes * kWordBytes);
      if (end - words >= kRowWords) return;
      if (end != words) std::memcpy(tail, words, static_cast<std::size_t>(end - words));
      words = tail;
      end = tail + sizeof tail;
    }
  };

  struct Lanes {
    Int bits[kGroups];  ///< A lane's next ones are the upper ones.
    Int held[kGroups];

    Lanes() {
      for (int g = 0; g < kGroups; ++g) bits[g] = held[g] = V::set(0);
    }
    [[gnu::always_inline]] const std::uint8_t* refill(const std::uint8_t* words) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const Int word_bits = V::set(kWordBits);
        const auto wanted = V::greater(word_bits, held[g]);
        const Int word = V::expand_words(words, wanted);
        words += static_cast<unsigned>(__builtin_popcount(V::lanes(wanted))) * kWordBytes;
        bits[g] = V::bit_or(bits[g], V::shift_left(word, V::sub(word_bits, held[g])));
        held[g] = V::add(held[g], V::keep(wanted, word_bits));
      }
      return words;
    }
    [[gnu::always_inline]] bool empty() const {
      unsigned left = 0;
      for (int g = 0; g < kGroups; ++g) left |= ~V::lanes(V::equal(bits[g], V::set(0))) & V::kAllLanes;
      return left == 0;
    }
  };

  /// A row's values; its slots that are escapes.
  [[gnu::always_inline]] static std::uint32_t take_row(const ResidualTables& tables, const Row& row, const Masks& masks,
                                                       Lanes* lanes, Bf16* values) {
    std::uint32_t escapes = 0;
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const LanePlaces<V> places = row.places(g);
      Int& bits = lanes->bits[g];
      const Int index = V::add(V::template shift_left<8>(places.context), V::template shift_right<24>(bits));
      const Int entry = V::template shift_left<16>(V::look_up(tables.decode, index));
      const Int quotient = V::template shift_right_signed<22>(entry);
      const Int length = V::add(V::bit_and(V::template shift_right<16>(entry), V::set(7)), V::set(1));
      const Int raw_bits = V::bit_and(V::template shift_right<19>(entry), V::set(7));
      const Int behind_word = V::shift_left(bits, length);
      const Int raw = V::shift_right(behind_word, V::sub(V::set(32), raw_bits));
      bits = V::select(masks.of[g], V::shift_left(behind_word, raw_bits), bits);
      lanes->held[g] = V::sub(lanes->held[g], V::keep(masks.of[g], V::add(length, raw_bits)));
      const Int magnitude = V::add(places.y, V::add(V::shift_left(quotient, raw_bits), raw));
      const Int value = V::bit_xor(magnitude, V::bit_and(places.level, V::set(0x8000)));
      V::store_values(V::keep(masks.of[g], V::bit_and(value, V::set(0xffff))), values + g * V::kWidth);
      escapes |= V::lanes(V::both(masks.of[g], V::equal(quotient, V::set(kEscapeQuotient)))) << (g * V::kWidth);
    }
    return escapes;
  }

  static bool decode_exact(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, std::size_t bytes,
                           Bf16* values) {
    const PlaneRows rows = plane_rows(unit);
    const ResidualTables& tables = residual_tables(unit.wide_anchor);
    const bool wide = unit.wide_anchor;
    Source source(residual, bytes);
    Lanes lanes;
    const bool sound = for_rows<V>(rows, anchor, [&](std::size_t at, const Masks& masks, const PairOfGroups<V>& pair) {
      source.prepare_row();
      const std::uint8_t* words = lanes.refill(source.words);
      source.left -= words - source.words;
      source.words = words;
      Bf16* out = values + at * kRowSlots;
      std::uint32_t escapes = take_row(tables, Row(rows.layout, anchor, at, pair, wide), masks, &lanes, out);
      for (; escapes != 0 && source.left > 0; escapes &= escapes - 1) {
        source.left -= static_cast<std::ptrdiff_t>(sizeof(Bf16));
        source.escapes -= sizeof(Bf16);
        std::memcpy(&out[__builtin_ctz(escapes)], source.escapes, sizeof(Bf16));
      }
      return source.left >= 0 && escapes == 0;
    });
    if (!sound || source.left != 0 || !lanes.empty()) return false;
    place_sinks(unit, anchor, values);
    return true;
  }
};

/// A path's table.
template <class V>
constexpr PlaneKernels vector_plane_kernels() {
  return {AnchorPath<V>::encode_anchor, AnchorPath<V>::encode_int8_residual, AnchorPath<V>::decode_view, ExactPath<V>::encode_exact,
          ExactPath<V>::decode_exact};
}

}  // namespace
}  // namespace lynx::quant
