#pragma once

// The planes on vectors of any width, for translation units of one ISA path: PlanePath<V> are that path's kernels. Same bits as
// plane_portable.cpp: integers, and FP32 steps each rounded by itself, as in plane_math.h.
//
// V has registers of kWidth lanes: Int of 32 bits, Float, and Mask, one truth a lane; plane_avx512.cpp says what else.

#include <cstring>

#include "quant/plane_math.h"
#include "quant/plane_rows.h"

namespace lynx::quant {
namespace {

constexpr int kRowSlots = 32;
constexpr std::size_t kRowCodes = kRowSlots / 2;  ///< Bytes of nibbles.
constexpr float kRoundToInt = 12582912.0f;        ///< 1.5 · 2²³; plane_math.h has why.
constexpr float kStepOfInt8 = 1.0f / kInt8Steps;  ///< Exact, and so are products with it.

/// Which slots of the outer's rows are coded, one bit each.
[[gnu::always_inline]] inline std::uint32_t coded_slots(const PlaneRows& rows, int outer) {
  const int left = rows.last_slots - outer * kRowSlots;
  const std::uint32_t below = left >= kRowSlots ? 0xffffffffu : (left <= 0 ? 0 : (1u << left) - 1);
  return outer == 0 ? below >> rows.first_slots << rows.first_slots : below;
}

/// Vector formulas of plane_math.h.
template <class V>
struct PlaneMath {
  using Int = typename V::Int;
  using Float = typename V::Float;

  [[gnu::always_inline]] static Int round_within(Float x, float limit) {
    const Float clamped = V::min(V::max(x, V::broadcast(-limit)), V::broadcast(limit));
    return V::sub(V::bits(V::add(clamped, V::broadcast(kRoundToInt))), V::bits(V::broadcast(kRoundToInt)));
  }
  /// Zero-extended BF16.
  [[gnu::always_inline]] static Float anchor_input(Int value) {
    const Int exponent = V::set(0x7f80);
    const auto odd = V::equal(V::bit_and(value, exponent), exponent);
    return V::float_of(V::drop(odd, V::template shift_left<16>(value)));
  }
  [[gnu::always_inline]] static Int anchor_code(Float x, Float scale, Int zero) {
    const Int code = V::sub(round_within(V::div(x, scale), 1024.0f), zero);
    return V::min(V::max(code, V::set(0)), V::set(kAnchorLevels - 1));
  }
  [[gnu::always_inline]] static Int int8_residual(Float x, Int level, Float scale, Float step) {
    const Float rest = V::sub(x, V::mul(V::to_float(level), scale));
    return V::min(round_within(V::div(rest, step), 8.0f), V::set(7));
  }
  /// A group's, of its span.
  [[gnu::always_inline]] static Int anchor_scale(Float lo, Float hi) {
    const Float from_zero = V::max(V::sub(V::broadcast(0.0f), lo), hi);
    const Float by_span = V::div(V::sub(hi, lo), V::broadcast(15.0f));
    const Float wanted = V::max(by_span, V::div(from_zero, V::broadcast(120.0f)));
    const Int above_least = V::sub(V::bits(wanted), V::set(static_cast<int>((103u << 23) - 0xfffffu)));
    const Int code = V::min(V::template shift_right<20>(above_least), V::set(255));
    return V::drop(V::not_greater(wanted, V::broadcast(0x1p-24f)), code);
  }
  [[gnu::always_inline]] static Float scale_value(Int code) {
    return V::float_of(V::add(V::template shift_left<20>(code), V::set(103 << 23)));
  }
};

/// A row's two scales and zeros, in its even and its odd lanes.
template <class V>
struct PairOfGroups {
  typename V::Float scale;
  typename V::Int zero;

  [[gnu::always_inline]] PairOfGroups(const PlaneRows& rows, const std::byte* anchor, int head, int outer, int inner) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(anchor);
    const std::size_t even = group_at(rows, head, outer, inner);
    const std::size_t odd = even + static_cast<std::size_t>(rows.inner_step);
    const std::uint8_t* scales = bytes + rows.layout.scales_at;
    const std::uint8_t* zeros = bytes + rows.layout.zeros_at;
    scale = PlaneMath<V>::scale_value(V::set_pair(scales[even], scales[odd]));
    zero = V::set_pair(static_cast<std::int8_t>(zeros[even]), static_cast<std::int8_t>(zeros[odd]));
  }
  [[gnu::always_inline]] static std::size_t group_at(const PlaneRows& rows, int head, int outer, int inner) {
    return static_cast<std::size_t>(head * rows.groups_of_head + inner * 2 * rows.inner_step + outer / kOutersOfGroup);
  }
};

/// Which of a row's slots are coded.
template <class V>
struct RowMasks {
  typename V::Mask of[kRowSlots / V::kWidth];

  [[gnu::always_inline]] explicit RowMasks(std::uint32_t slots) {
#pragma GCC unroll 4
    for (int g = 0; g < kRowSlots / V::kWidth; ++g) of[g] = V::mask(slots >> (g * V::kWidth));
  }
};

[[gnu::always_inline]] inline std::size_t row_at(const PlaneRows& rows, int head, int outer, int inner) {
  return static_cast<std::size_t>((head * rows.outers + outer) * rows.inners + inner);
}

/// In slot order, f(row, masks, pair), until it returns false. Rows without coded slots have some pair.
template <class V, class RowFunction>
[[gnu::always_inline]] inline bool for_rows(const PlaneRows& rows, const std::byte* anchor, RowFunction f) {
  std::size_t row = 0;
  for (int head = 0; head < rows.heads; ++head) {
    for (int outer = 0; outer < rows.outers; ++outer) {
      const std::uint32_t slots = coded_slots(rows, outer);
      for (int inner = 0; inner < rows.inners; ++inner, ++row) {
        const bool coded = inner >= rows.first_inner && inner < rows.grouped_inners;
        const PairOfGroups<V> pair(rows, anchor, head, outer, coded ? inner : 0);
        if (!f(row, RowMasks<V>(coded ? slots : 0), pair)) return false;
      }
    }
  }
  return true;
}

/// Anchors, int8 Residuals and views.
template <class V>
struct AnchorPath {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Masks = RowMasks<V>;
  using Math = PlaneMath<V>;

  static constexpr int kGroups = kRowSlots / V::kWidth;
  static constexpr int kBatch = 8;  ///< Inners whose scales are computed together.
  static constexpr std::size_t kGroupCodes = kRowCodes / kGroups;

  /// The span of both groups of an inner, whose rows are in `outer` … `end`: 0 … 0 if nothing of them is coded.
  [[gnu::always_inline]] static void span_of(const PlaneRows& rows, const Bf16* values, int head, int outer, int end, int inner,
                                             float* lo, float* hi) {
    constexpr float kMost = 0x1.fffffep127f;
    Float least = V::broadcast(kMost);
    Float most = V::broadcast(-kMost);
    for (int o = outer; o < end; ++o) {
      const Bf16* row = values + row_at(rows, head, o, inner) * kRowSlots;
      const Masks masks(coded_slots(rows, o));
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const Float x = Math::anchor_input(V::load_values(row + g * V::kWidth));
        least = V::min(least, V::select(masks.of[g], x, V::broadcast(kMost)));
        most = V::max(most, V::select(masks.of[g], x, V::broadcast(-kMost)));
      }
    }
    V::store_pair(V::least_of_pairs(least), lo);
    V::store_pair(V::most_of_pairs(most), hi);
  }

  /// Scales and zeros of kBatch inners at most, into the Anchor.
  static void encode_scales(const PlaneRows& rows, const Bf16* values, std::byte* anchor, int head, int outer, int inner, int end) {
    alignas(64) float lo[2 * kBatch] = {};
    alignas(64) float hi[2 * kBatch] = {};
    alignas(64) std::int32_t scales[2 * kBatch];
    alignas(64) std::int32_t zeros[2 * kBatch];
    const int last_outer = outer + kOutersOfGroup < rows.outers ? outer + kOutersOfGroup : rows.outers;
    for (int i = inner; i < end; ++i) {
      if (i < rows.first_inner) continue;
      const int at = 2 * (i - inner);
      span_of(rows, values, head, outer, last_outer, i, lo + at, hi + at);
    }
    for (int at = 0; at < 2 * kBatch; at += V::kWidth) {
      const Float least = V::load_floats(lo + at);
      const Int code = Math::anchor_scale(least, V::load_floats(hi + at));
      const Int zero = V::min(Math::round_within(V::div(least, Math::scale_value(code)), 128.0f), V::set(127));
      V::store_ints(code, scales + at);
      V::store_ints(zero, zeros + at);
    }
    auto* bytes = reinterpret_cast<std::uint8_t*>(anchor);
    std::size_t group = PairOfGroups<V>::group_at(rows, head, outer, inner);
    for (int i = 0; i < 2 * (end - inner); ++i, group += static_cast<std::size_t>(rows.inner_step)) {
      bytes[rows.layout.scales_at + group] = static_cast<std::uint8_t>(scales[i]);
      bytes[rows.layout.zeros_at + group] = static_cast<std::uint8_t>(zeros[i]);
    }
  }

  [[gnu::always_inline]] static void encode_residual_row(const Bf16* row, const std::byte* codes, const Masks& masks,
                                                         const PairOfGroups<V>& pair, std::byte* residual) {
    const Float step = V::mul(pair.scale, V::broadcast(kStepOfInt8));
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const Float x = Math::anchor_input(V::load_values(row + g * V::kWidth));
      const Int level = V::add(V::load_nibbles(codes + g * kGroupCodes), pair.zero);
      const Int residuals = V::add(Math::int8_residual(x, level, pair.scale, step), V::set(8));
      V::store_nibbles(V::keep(masks.of[g], residuals), residual + g * kGroupCodes);
    }
  }

  static void encode_codes(const PlaneRows& rows, const Bf16* values, std::byte* anchor, bool wide) {
    std::byte* codes = anchor + rows.layout.codes_at;
    std::byte* residuals = anchor + rows.layout.residuals_at;
    for_rows<V>(rows, anchor, [&](std::size_t row, const Masks& masks, const PairOfGroups<V>& pair) {
      const Bf16* in = values + row * kRowSlots;
      std::byte* out = codes + row * kRowCodes;
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const Float x = Math::anchor_input(V::load_values(in + g * V::kWidth));
        V::store_nibbles(V::keep(masks.of[g], Math::anchor_code(x, pair.scale, pair.zero)), out + g * kGroupCodes);
      }
      if (wide) encode_residual_row(in, out, masks, pair, residuals + row * kRowCodes);
      return true;
    });
  }

  static void encode_anchor(const PlaneUnit& unit, const Bf16* values, std::byte* anchor) {
    const PlaneRows rows = plane_rows(unit);
    copy_sinks(unit, values, anchor);
    for (int head = 0; head < rows.heads; ++head) {
      for (int outer = 0; outer < rows.outers; outer += kOutersOfGroup) {
        for (int inner = 0; inner < rows.grouped_inners; inner += kBatch) {
          const int end = inner + kBatch < rows.grouped_inners ? inner + kBatch : rows.grouped_inners;
          encode_scales(rows, values, anchor, head, outer, inner, end);
        }
      }
    }
    encode_codes(rows, values, anchor, unit.wide_anchor);
  }

  static void encode_int8_residual(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual) {
    const PlaneRows rows = plane_rows(unit);
    const std::byte* codes = anchor + rows.layout.codes_at;
    for_rows<V>(rows, anchor, [&](std::size_t row, const Masks& masks, const PairOfGroups<V>& pair) {
      encode_residual_row(values + row * kRowSlots, codes + row * kRowCodes, masks, pair, residual + row * kRowCodes);
      return true;
    });
  }

  static void decode_view(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, Bf16* view) {
    const PlaneRows rows = plane_rows(unit);
    const std::byte* codes = anchor + rows.layout.codes_at;
    for_rows<V>(rows, anchor, [&](std::size_t row, const Masks& masks, const PairOfGroups<V>& pair) {
      const Float step = V::mul(pair.scale, V::broadcast(kStepOfInt8));
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        Int level = V::add(V::load_nibbles(codes + row * kRowCodes + g * kGroupCodes), pair.zero);
        if (residual != nullptr) {
          const Int below = V::load_nibbles(residual + row * kRowCodes + g * kGroupCodes);
          level = V::add(V::template shift_left<4>(level), V::sub(below, V::set(8)));
        }
        const Float value = V::mul(V::to_float(level), residual != nullptr ? step : pair.scale);
        V::store_values(V::keep(masks.of[g], V::bf16_of(value)), view + row * kRowSlots + g * V::kWidth);
      }
      return true;
    });
    place_sinks(unit, anchor, view);
  }
};

}  // namespace
}  // namespace lynx::quant
