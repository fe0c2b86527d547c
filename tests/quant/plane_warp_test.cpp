// What a GPU runs, run by one thread that stands in for its teams and warps: the bytes and values of the CPU's codec.

#include "quant/plane_warp.h"

#include <algorithm>
#include <random>

#include "quant/plane_team.h"
#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"
#include "tests/quant/plane_samples.h"

namespace lynx::quant {
namespace {

struct OneThread {
  std::size_t first() const { return 0; }
  std::size_t step() const { return 1; }
  void sync() const {}
};

TEST_CASE("every slot has a place, and the place that slot") {
  for (const PlaneUnit& unit : sample_units()) {
    std::size_t coded = 0;
    for (std::size_t slot = 0; slot < unit_slots(unit); ++slot) {
      const SlotPlace place = place_of(unit, slot);
      REQUIRE((place.head < unit.heads && place.token < kPlaneBlockTokens && place.channel < stored_channels(unit)));
      REQUIRE(slot_of(unit, place.head, place.token, place.channel) == slot);
      if (is_coded(unit, place)) ++coded;
    }
    std::size_t listed = 0;
    for_each_value(unit, [&](std::size_t slot, std::size_t) {
      REQUIRE(is_coded(unit, place_of(unit, slot)));
      ++listed;
    });
    CHECK(listed == coded);
  }
}

void check_unit(const PlaneUnit& unit, const PlaneValues& values) {
  const PlaneBytes anchor = make_anchor(unit, values);
  PlaneBytes by_team(anchor.size(), std::byte{0x5a});
  team_encode_anchor(OneThread{}, unit, values.data(), by_team.data());
  REQUIRE((by_team == anchor));

  PlaneValues expected(values.size());
  PlaneValues view(values.size(), 0x1234);
  REQUIRE(decode_anchor(Isa::kPortable, unit, anchor, expected).ok());
  team_decode_view(OneThread{}, unit, anchor.data(), nullptr, view.data());
  REQUIRE((view == expected));
  if (!unit.wide_anchor) {
    const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
    PlaneBytes residual(int8.size(), std::byte{0x5a});
    team_encode_int8(OneThread{}, unit, anchor.data(), values.data(), residual.data());
    REQUIRE((residual == int8));
    REQUIRE(decode_int8(Isa::kPortable, unit, anchor, int8, expected).ok());
    team_decode_view(OneThread{}, unit, anchor.data(), int8.data(), view.data());
    REQUIRE((view == expected));
  }

  const ResidualCode& code = residual_code(unit.wide_anchor);
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  PlaneBytes by_warp(exact_residual_bound(unit), std::byte{0x5a});
  by_warp.resize(warp_encode_exact(HostWarp{}, code, unit, anchor.data(), values.data(), by_warp.data()));
  REQUIRE((by_warp == exact));
  if (exact.empty()) return;
  std::fill(view.begin(), view.end(), Bf16{0x1234});
  const ExactBytes bytes(exact);
  REQUIRE(warp_decode_exact(HostWarp{}, code, unit, anchor.data(), bytes.data.get(), bytes.size, view.data()));
  REQUIRE((view == coded_values(unit, values)));
}

TEST_CASE("teams and warps write and read the bytes of the CPU's codec") {
  std::mt19937_64 rng(5);
  int raw = 0;
  for (const PlaneUnit& unit : sample_units()) {
    for (int kind = 0; kind < kSampleKinds; ++kind) {
      const PlaneValues values = sample_values(kind, unit_slots(unit), rng);
      INFO((unit.part == PlanePart::kK ? "K " : "V ") << unit.heads << "x" << unit.head_dim << " first " << unit.first_block
                                                      << " wide " << unit.wide_anchor << " kind " << kind);
      check_unit(unit, values);
      raw += make_exact_residual(unit, make_anchor(unit, values), values).empty() ? 1 : 0;
    }
  }
  CHECK(raw > 0);
}

TEST_CASE("a damaged exact Residual is refused by a warp when the CPU refuses it, and read alike when it does not") {
  std::mt19937_64 rng(6);
  int refused = 0;
  int read = 0;
  for (const PlaneUnit& unit : sample_units()) {
    const PlaneValues values = sample_values(3, unit_slots(unit), rng);
    const PlaneBytes anchor = make_anchor(unit, values);
    const PlaneBytes exact = make_exact_residual(unit, anchor, values);
    if (exact.size() < 4) continue;
    for (int i = 0; i < 12; ++i) {
      PlaneBytes damaged = exact;
      if (i % 3 != 0) damaged[rng() % damaged.size()] ^= static_cast<std::byte>(1 << rng() % 8);
      if (i % 3 == 0) damaged.resize(i == 0 ? 0 : rng() % damaged.size());
      if (i % 3 == 2) std::swap(damaged.front(), damaged.back());
      PlaneValues expected(values.size());
      PlaneValues view(values.size());
      const bool sound = decode_exact_at(unit, anchor, damaged, &expected).ok();
      const ExactBytes bytes(damaged);
      REQUIRE(warp_decode_exact(HostWarp{}, residual_code(unit.wide_anchor), unit, anchor.data(), bytes.data.get(), bytes.size,
                                view.data()) == sound);
      if (sound) REQUIRE((view == expected));
      ++(sound ? read : refused);
    }
  }
  CHECK(refused > 50);
  CHECK(read > 50);
}

}  // namespace
}  // namespace lynx::quant
