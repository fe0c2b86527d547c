// What only vector paths can get wrong: every value at every scale in every lane, memory that is not aligned, many escapes. The
// fixture's functions run all paths and fail where one is not the portable path's, whose formulas plane_math_test.cpp checks.

#include <algorithm>
#include <random>

#include "quant/plane_kernels.h"
#include "quant/plane_math.h"
#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"

namespace lynx::quant {
namespace {

std::byte* scales_of(const PlaneUnit& unit, PlaneBytes* anchor) {
  return anchor->data() + anchor_layout(unit).scales_at;
}

TEST_CASE("All BF16 patterns at all scales: int8 residuals, and both views of what comes out") {
  const PlaneUnit unit{PlanePart::kK, 8, 128, false, false};
  const std::size_t slots = unit_slots(unit);
  REQUIRE(slots == 65536);
  PlaneValues values(slots);
  for (std::size_t i = 0; i < slots; ++i) values[i] = static_cast<Bf16>(i * 40503);  // Odd: each pattern once.
  std::mt19937_64 rng(41);
  PlaneBytes anchor(anchor_bytes(unit));
  for (int scale = 0; scale < 256; ++scale) {
    CAPTURE(scale);
    for (std::byte& byte : anchor) byte = static_cast<std::byte>(rng());
    std::fill_n(scales_of(unit, &anchor), unit_groups(unit), static_cast<std::byte>(scale));
    const PlaneBytes residual = make_int8_residual(unit, anchor, values);
    PlaneValues view(slots);
    REQUIRE(decode_anchor_at(unit, anchor, &view).ok());
    REQUIRE(decode_int8_at(unit, anchor, residual, &view).ok());
  }
}

/// Groups of K, each with both ends of an interval and all patterns between, 62 at a time.
void add_groups(float lo, float hi, std::vector<PlaneValues>* groups) {
  const Bf16 first = float_to_bf16(lo);
  const Bf16 last = float_to_bf16(hi);
  PlaneValues group{first, last};
  for (int order = bf16_order(first); order <= bf16_order(last); ++order) {
    group.push_back(bf16_from_order(order));
    if (group.size() < plane_size(kPlaneBlockTokens)) continue;
    groups->push_back(group);
    group.resize(2);
  }
  group.resize(plane_size(kPlaneBlockTokens), first);
  groups->push_back(group);
}

TEST_CASE("Anchors of all values that a group can have at each scale") {
  std::mt19937_64 rng(42);
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    const float scale = ue5m3_to_float(static_cast<std::uint8_t>(code));
    std::vector<PlaneValues> groups;
    add_groups(-7.5f * scale, 7.5f * scale, &groups);
    for (float reach = 7.5f; reach < 120; reach += 15) {
      add_groups(reach * scale, (reach + 15) * scale, &groups);
      add_groups(-(reach + 15) * scale, -reach * scale, &groups);
    }
    std::shuffle(groups.begin(), groups.end(), rng);  // Any of them in any lane, next to any other.
    const int head_dim = 64;
    const PlaneUnit unit{PlanePart::kK, (static_cast<int>(groups.size()) + head_dim - 1) / head_dim, head_dim, false,
                         code % 8 == 3};
    PlaneValues values(unit_slots(unit), 0);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::shuffle(groups[g].begin(), groups[g].end(), rng);
      for (int token = 0; token < kPlaneBlockTokens; ++token) {
        values[slot_of(unit, static_cast<int>(g) / head_dim, token, static_cast<int>(g) % head_dim)] = groups[g][plane_size(token)];
      }
    }
    const PlaneBytes anchor = make_anchor(unit, values);
    REQUIRE(std::find(anchor.begin(), anchor.end(), static_cast<std::byte>(code)) != anchor.end());
  }
}

/// An Anchor with one scale and any levels, and values that are at them: within a step and a bit more, and about 0 of all octaves.
PlaneBytes forge_anchor(const PlaneUnit& unit, int scale_code, std::mt19937_64& rng, PlaneValues* values) {
  PlaneBytes anchor(anchor_bytes(unit));
  for (std::byte& byte : anchor) byte = static_cast<std::byte>(rng());
  std::fill_n(scales_of(unit, &anchor), unit_groups(unit), static_cast<std::byte>(scale_code));
  const AnchorLayout layout = anchor_layout(unit);
  const float scale = ue5m3_to_float(static_cast<std::uint8_t>(scale_code)) / (unit.wide_anchor ? kInt8Steps : 1);
  std::uniform_real_distribution<float> off(-0.7F, 0.7F);
  const auto nibble = [&](std::size_t at, std::size_t slot) {
    return std::to_integer<int>(anchor[at + slot / 2]) >> (slot % 2 * 4) & 15;
  };
  for_each_value(unit, [&](std::size_t slot, std::size_t group) {
    int level = nibble(layout.codes_at, slot) + static_cast<std::int8_t>(anchor[layout.zeros_at + group]);
    if (unit.wide_anchor) level = level * kInt8Steps + nibble(layout.residuals_at, slot) - 8;
    (*values)[slot] = float_to_bf16((static_cast<float>(level) + off(rng)) * scale);
    if (level == 0) (*values)[slot] = static_cast<Bf16>((*values)[slot] - rng() % 10 * 128);
    if (rng() % 128 == 0) (*values)[slot] = static_cast<Bf16>(rng());
  });
  return anchor;
}

TEST_CASE("Exact Residuals at all scales and levels") {
  std::mt19937_64 rng(43);
  for (const bool wide : {false, true}) {
    const PlaneUnit unit{wide ? PlanePart::kV : PlanePart::kK, 2, 64, false, wide};
    for (int code = 0; code < 256; ++code) {
      CAPTURE(wide, code);
      PlaneValues values(unit_slots(unit));
      const PlaneBytes anchor = forge_anchor(unit, code, rng, &values);
      const PlaneBytes exact = make_exact_residual(unit, anchor, values);
      REQUIRE_FALSE(exact.empty());
      PlaneValues back(values.size());
      REQUIRE(decode_exact_at(unit, anchor, exact, &back).to_string() == "OK");
      REQUIRE(back == values);
    }
  }
}

TEST_CASE("Escapes, from none to more than a path keeps in mind") {
  std::mt19937_64 rng(44);
  std::normal_distribution<float> normal(0.5F, 1.0F);
  const PlaneUnit unit{PlanePart::kK, 6, 64, true, false};
  PlaneValues values(unit_slots(unit));
  for (Bf16& value : values) value = float_to_bf16(normal(rng));
  std::vector<std::size_t> slots;
  for_each_value(unit, [&](std::size_t slot, std::size_t) { slots.push_back(slot); });
  std::shuffle(slots.begin(), slots.end(), rng);
  std::size_t escapes = 0;
  for (const std::size_t more : {0U, 1U, 2000U, 46U, 1U, 1U, 1U, 31U, 32U, 500U, 2000U}) {
    CAPTURE(escapes, more);
    for (std::size_t i = 0; i < more; ++i) values[slots[escapes++]] = static_cast<Bf16>(0x7f80 | (rng() & 0x807f));
    const PlaneBytes anchor = make_anchor(unit, values);
    const PlaneBytes exact = make_exact_residual(unit, anchor, values);
    REQUIRE_FALSE(exact.empty());
    PlaneValues back(values.size());
    REQUIRE(decode_exact_at(unit, anchor, exact, &back).ok());
    REQUIRE(back == values);
  }
}

TEST_CASE("Nothing needs to be aligned") {
  std::mt19937_64 rng(45);
  std::normal_distribution<float> normal(0.5F, 1.0F);
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    const PlaneUnit unit{part, 1, 64, true, false};
    const std::size_t slots = unit_slots(unit);
    PlaneValues values(slots);
    for (Bf16& value : values) value = float_to_bf16(normal(rng));
    const PlaneBytes anchor = make_anchor(unit, values);
    const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
    const PlaneBytes exact = make_exact_residual(unit, anchor, values);
    for (const Isa isa : supported_paths()) {
      for (const std::size_t off : {1U, 3U, 31U}) {
        CAPTURE(isa_name(isa), off);
        PlaneValues moved(slots + off);
        std::copy(values.begin(), values.end(), moved.begin() + static_cast<std::ptrdiff_t>(off));
        const std::span<Bf16> in = std::span(moved).subspan(off);
        const auto begins = [off](const PlaneBytes& plane, const PlaneBytes& expected) {
          return std::equal(expected.begin(), expected.end(), plane.begin() + static_cast<std::ptrdiff_t>(off));
        };
        PlaneBytes anchor_at(anchor.size() + off);
        PlaneBytes int8_at(int8.size() + off);
        PlaneBytes exact_at(exact_residual_bound(unit) + off);
        const std::span<std::byte> anchor_span = std::span(anchor_at).subspan(off);
        encode_anchor(isa, unit, in, anchor_span);
        REQUIRE(begins(anchor_at, anchor));
        encode_int8_residual(isa, unit, anchor_span, in, std::span(int8_at).subspan(off));
        REQUIRE(begins(int8_at, int8));
        REQUIRE(encode_exact_residual(isa, unit, anchor_span, in, std::span(exact_at).subspan(off)) == exact.size());
        REQUIRE(begins(exact_at, exact));
        std::fill(in.begin(), in.end(), Bf16{0x1234});
        REQUIRE(decode_exact(isa, unit, anchor_span, std::span(exact_at).subspan(off, exact.size()), in).ok());
        REQUIRE(std::equal(values.begin(), values.end(), in.begin()));
        PlaneValues view(slots);
        REQUIRE(decode_int8_at(unit, anchor, int8, &view).ok());
        REQUIRE(decode_int8(isa, unit, anchor_span, std::span(int8_at).subspan(off), in).ok());
        REQUIRE(std::equal(view.begin(), view.end(), in.begin()));
      }
    }
  }
}

}  // namespace
}  // namespace lynx::quant
