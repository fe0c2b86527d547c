// Damaged and forged planes: an error or other values, never more. The second decoder must judge alike.

#include <random>

#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"
#include "tests/quant/plane_reference.h"

namespace lynx::quant {
namespace {

struct Planes {
  PlaneUnit unit;
  ReferenceUnit reference;
  PlaneBytes anchor;
  PlaneBytes exact;
};

Planes small_planes(PlanePart part, bool wide) {
  const PlaneUnit unit{part, 1, 6, false, wide};
  std::mt19937_64 rng(31);
  std::normal_distribution<float> normal(0.1F, 2.0F);
  PlaneValues values(unit_slots(unit));
  for (Bf16& value : values) value = float_to_bf16(normal(rng));
  values[slot_of(unit, 0, 3, 3)] = 0x7fc1;  // An escape.
  const PlaneBytes anchor = make_anchor(unit, values);
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  REQUIRE_FALSE(exact.empty());
  return {unit, {part == PlanePart::kK, 1, 6, false, wide}, anchor, exact};
}

/// Whether the decoder accepted. What it accepts must be what the second one gets.
bool decode_both(const Planes& planes) {
  const auto reference = reference_exact(planes.reference, planes.anchor, planes.exact);
  PlaneValues values(unit_slots(planes.unit));
  const Status status = decode_exact_at(planes.unit, planes.anchor, planes.exact, &values);
  REQUIRE(status.ok() == reference.has_value());
  if (reference) {
    REQUIRE(values == *reference);
  } else {
    REQUIRE(status.code() == Code::kDataLoss);
    REQUIRE(status.message().find("exact residual: ") == 0);
  }
  return reference.has_value();
}

void check_every_byte(Planes planes, PlaneBytes Planes::*plane) {
  for (std::size_t at = 0; at < (planes.*plane).size(); ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
      CAPTURE(at, change);
      std::byte& byte = (planes.*plane)[at];
      const std::byte sound = byte;
      byte ^= static_cast<std::byte>(change);
      decode_both(planes);
      byte = sound;
    }
  }
}

TEST_CASE("Every byte of both planes changed: an error or other values") {
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    for (const bool wide : {false, true}) {
      CAPTURE(static_cast<int>(part), wide);
      const Planes planes = small_planes(part, wide);
      REQUIRE(decode_both(planes));
      check_every_byte(planes, &Planes::anchor);
      check_every_byte(planes, &Planes::exact);
    }
  }
}

TEST_CASE("Every byte of Anchor and int8 Residual may be anything: the views are the second decoder's") {
  Planes planes = small_planes(PlanePart::kK, false);
  PlaneBytes residual(int8_residual_bytes(planes.unit));
  std::mt19937_64 rng(32);
  for (int round = 0; round < 200; ++round) {
    for (std::byte& byte : planes.anchor) byte = static_cast<std::byte>(rng());
    for (std::byte& byte : residual) byte = static_cast<std::byte>(rng());
    PlaneValues view(unit_slots(planes.unit));
    REQUIRE(decode_anchor_at(planes.unit, planes.anchor, &view).ok());
    REQUIRE(view == reference_view(planes.reference, planes.anchor, nullptr));
    REQUIRE(decode_int8_at(planes.unit, planes.anchor, residual, &view).ok());
    REQUIRE(view == reference_view(planes.reference, planes.anchor, &residual));
  }
}

TEST_CASE("Every truncation of an exact Residual is refused, and so is more than it needs") {
  Planes planes = small_planes(PlanePart::kV, false);
  const PlaneBytes sound = planes.exact;
  for (std::size_t bytes = 0; bytes < sound.size(); ++bytes) {
    CAPTURE(bytes);
    planes.exact.assign(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(bytes));
    CHECK_FALSE(decode_both(planes));
  }
  for (const std::size_t more : {1U, 2U, 64U}) {
    planes.exact = sound;
    planes.exact.resize(sound.size() + more);
    CHECK_FALSE(decode_both(planes));
  }
}

TEST_CASE("An escape of the last row must be there, and so must all of its words") {
  std::mt19937_64 rng(33);
  std::normal_distribution<float> normal(0.1F, 2.0F);
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    const PlaneUnit unit{part, 1, 32, false, false};
    PlaneValues values(unit_slots(unit));
    for (Bf16& value : values) value = float_to_bf16(normal(rng));
    values.back() = 0x7f80;
    const PlaneBytes anchor = make_anchor(unit, values);
    const PlaneBytes exact = make_exact_residual(unit, anchor, values);
    Planes planes{unit, {part == PlanePart::kK, 1, 32, false, false}, anchor, exact};
    REQUIRE(decode_both(planes));
    planes.exact.resize(exact.size() - 2);
    CHECK_FALSE(decode_both(planes));
    planes.exact.resize(exact.size() - 4);
    CHECK_FALSE(decode_both(planes));
  }
}

TEST_CASE("Random bytes as an exact Residual") {
  const std::uint64_t seed = 20260302;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  Planes planes = small_planes(PlanePart::kK, true);
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    planes.exact.resize(rng() % 4096);
    for (std::byte& byte : planes.exact) byte = rng() % 4 == 0 ? std::byte{0xff} : static_cast<std::byte>(rng());
    decode_both(planes);
  }
}

TEST_CASE("What is wrong with a plane is named") {
  Planes planes = small_planes(PlanePart::kK, false);
  PlaneValues values(unit_slots(planes.unit));
  const PlaneBytes residual(int8_residual_bytes(planes.unit));
  PlaneBytes shorter = planes.anchor;
  shorter.pop_back();
  const std::string wrong_anchor = "anchor plane: 1035 bytes, not 1036";
  CHECK(decode_anchor_at(planes.unit, shorter, &values).message() == wrong_anchor);
  CHECK(decode_int8_at(planes.unit, shorter, residual, &values).message() == wrong_anchor);
  CHECK(decode_exact_at(planes.unit, shorter, planes.exact, &values).message() == wrong_anchor);
  CHECK(decode_int8_at(planes.unit, planes.anchor, shorter, &values).message() == "int8 residual: 1035 bytes, not 1024");
  CHECK(decode_exact_at(planes.unit, planes.anchor, PlaneBytes(3), &values).message() ==
        "exact residual: 3 bytes cannot be 2048 values");
  CHECK(decode_exact_at(planes.unit, planes.anchor, PlaneBytes(4096), &values).message() ==
        "exact residual: 4096 bytes cannot be 2048 values");
  CHECK(decode_exact_at(planes.unit, planes.anchor, PlaneBytes(2), &values).message() ==
        "exact residual: the code words end early or are not used up");
  CHECK(decode_anchor_at(planes.unit, shorter, &values).code() == Code::kDataLoss);
}

}  // namespace
}  // namespace lynx::quant
