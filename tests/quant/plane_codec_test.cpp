// The planes against a second codec, over all shapes and all sorts of values.

#include "quant/plane_codec.h"

#include <algorithm>
#include <random>

#include "quant/plane_math.h"
#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"
#include "tests/quant/plane_reference.h"

namespace lynx::quant {
namespace {

ReferenceUnit reference_unit(const PlaneUnit& unit) {
  return {unit.part == PlanePart::kK, unit.heads, unit.head_dim, unit.first_block, unit.wide_anchor};
}

enum class Kind { kNormal, kOffset, kTiny, kHuge, kAnyBits, kSpecials, kZeros };
constexpr Kind kKinds[] = {Kind::kNormal, Kind::kOffset, Kind::kTiny, Kind::kHuge, Kind::kAnyBits, Kind::kSpecials, Kind::kZeros};

PlaneValues make_values(Kind kind, std::size_t count, std::mt19937_64& rng) {
  constexpr Bf16 kSpecials[] = {0x7f80, 0xff80, 0x7fc1, 0xffff, 0x7f81, 0x8000, 0x0000, 0x0001, 0x8001, 0x807f, 0x7f7f, 0xff7f};
  std::normal_distribution<float> normal(0, 1);
  PlaneValues values(count);
  for (Bf16& value : values) {
    const float x = normal(rng);
    switch (kind) {
      case Kind::kNormal: value = float_to_bf16(x); break;
      case Kind::kOffset: value = float_to_bf16(x + 13.0f); break;
      case Kind::kTiny: value = float_to_bf16(x * 1e-7f); break;
      case Kind::kHuge: value = float_to_bf16(x * 1e36f); break;
      case Kind::kAnyBits: value = static_cast<Bf16>(rng()); break;
      case Kind::kSpecials: value = rng() % 8 == 0 ? kSpecials[rng() % 12] : float_to_bf16(x); break;
      case Kind::kZeros: value = static_cast<Bf16>(rng() % 2 * 0x8000); break;
    }
  }
  return values;
}

std::vector<PlaneUnit> units() {
  std::vector<PlaneUnit> all;
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    for (const bool wide : {false, true}) {
      for (const int head_dim : {2, 30, 48, 64, 80, 128, 256}) {
        all.push_back({part, head_dim < 100 ? 2 : 1, head_dim, false, wide});
        all.push_back({part, 1, head_dim, true, wide});
      }
    }
  }
  return all;
}

void check_unit(const PlaneUnit& unit, const PlaneValues& values) {
  const ReferenceUnit reference = reference_unit(unit);
  REQUIRE(values.size() == reference_slots(reference));
  const PlaneBytes anchor = make_anchor(unit, values);
  REQUIRE((anchor == reference_anchor(reference, values)));
  PlaneValues view(values.size(), 0x1234);
  REQUIRE(decode_anchor_at(unit, anchor, &view).ok());
  REQUIRE((view == reference_view(reference, anchor, nullptr)));
  if (!unit.wide_anchor) {
    const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
    REQUIRE((int8 == reference_int8_residual(reference, values)));
    REQUIRE(decode_int8_at(unit, anchor, int8, &view).ok());
    REQUIRE((view == reference_view(reference, anchor, &int8)));
  }
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  if (exact.empty()) return;
  REQUIRE(exact.size() < exact_residual_bound(unit));
  PlaneValues back(values.size(), 0x1234);
  REQUIRE(decode_exact_at(unit, anchor, exact, &back).to_string() == "OK");
  REQUIRE(back == coded_values(unit, values));
  const auto second = reference_exact(reference, anchor, exact);
  REQUIRE(second.has_value());
  REQUIRE(*second == back);
}

TEST_CASE("All shapes and sorts of values: the second codec agrees, and the exact plane gives every bit back") {
  const std::uint64_t seed = 20260301;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  for (const PlaneUnit& unit : units()) {
    for (const Kind kind : kKinds) {
      CAPTURE(static_cast<int>(unit.part), unit.heads, unit.head_dim, unit.first_block, unit.wide_anchor, static_cast<int>(kind));
      check_unit(unit, make_values(kind, unit_slots(unit), rng));
    }
  }
}

TEST_CASE("Every BF16 pattern comes back from an exact Residual, at any level") {
  // One odd value to a lane: units of it alone would be sent raw.
  std::mt19937_64 rng(5);
  const PlaneUnit plain{PlanePart::kV, 4, 64, false, false};
  const PlaneUnit wide{PlanePart::kK, 4, 64, true, true};
  for (const PlaneUnit& unit : {plain, wide}) {
    const std::size_t slots = unit_slots(unit);
    const std::size_t patterns = slots / 32;
    for (std::size_t first = 0; first < 65536; first += patterns) {
      PlaneValues values = make_values(Kind::kNormal, slots, rng);
      for (std::size_t i = 0; i < patterns; ++i) values[i * 32 + (i * 5 + first / patterns) % 32] = static_cast<Bf16>(first + i);
      const PlaneBytes anchor = make_anchor(unit, values);
      const PlaneBytes exact = make_exact_residual(unit, anchor, values);
      PlaneValues back(slots);
      if (exact.empty()) FAIL("raw");
      REQUIRE(decode_exact_at(unit, anchor, exact, &back).ok());
      REQUIRE(back == values);
    }
  }
}

TEST_CASE("Values that do not pay are sent raw") {
  std::mt19937_64 rng(6);
  const PlaneUnit unit{PlanePart::kK, 1, 64, false, false};
  const PlaneValues values = make_values(Kind::kAnyBits, unit_slots(unit), rng);
  CHECK(make_exact_residual(unit, make_anchor(unit, values), values).empty());
}

TEST_CASE("Slots beyond head_dim do not count, and come back as 0") {
  std::mt19937_64 rng(7);
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    const PlaneUnit unit{part, 2, 80, false, false};
    const PlaneValues values = make_values(Kind::kNormal, unit_slots(unit), rng);
    const PlaneValues clean = coded_values(unit, values);
    REQUIRE(clean != values);
    CHECK(make_anchor(unit, values) == make_anchor(unit, clean));
    CHECK(make_exact_residual(unit, make_anchor(unit, values), values) ==
          make_exact_residual(unit, make_anchor(unit, clean), clean));
  }
}

TEST_CASE("Sinks are exact in every view and do not stretch a group") {
  std::mt19937_64 rng(8);
  const PlaneUnit unit{PlanePart::kK, 2, 64, true, false};
  PlaneValues values = make_values(Kind::kNormal, unit_slots(unit), rng);
  for (int channel = 0; channel < 64; ++channel) values[slot_of(unit, 1, 3, channel)] = float_to_bf16(1000);
  PlaneValues view(values.size());
  REQUIRE(decode_anchor_at(unit, make_anchor(unit, values), &view).ok());
  for (int token = 0; token < 64; ++token) {
    for (int channel = 0; channel < 64; ++channel) {
      const std::size_t slot = slot_of(unit, 1, token, channel);
      if (token < kSinkTokens) REQUIRE(view[slot] == values[slot]);
      REQUIRE(std::abs(bf16_to_float(view[slot]) - bf16_to_float(values[slot])) < 0.5f);
    }
  }
}

TEST_CASE("Whole blocks travel in planes, but not of a prompt that fits into one") {
  CHECK(coded_blocks(1) == 0);
  CHECK(coded_blocks(64) == 0);
  CHECK(coded_blocks(65) == 1);
  CHECK(coded_blocks(127) == 1);
  CHECK(coded_blocks(128) == 2);
  CHECK(coded_blocks(1000) == 15);
}

}  // namespace
}  // namespace lynx::quant
