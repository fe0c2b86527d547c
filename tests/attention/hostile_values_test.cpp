// NaN, infinities and leftovers in the cache, and scores that overflow.

#include <cmath>
#include <limits>

#include "tests/attention/anchor_fixture.h"

namespace lynx::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool all_nan(const std::vector<Bf16>& row) {
  return std::all_of(row.begin(), row.end(), [](Bf16 x) { return x == 0x7fc0; });
}

bool all_finite(const std::vector<Bf16>& row) {
  return std::none_of(row.begin(), row.end(), [](Bf16 x) { return (x & 0x7f80) == 0x7f80; });
}

TEST_CASE("Leftovers in slots that hold no token of the sequence never count") {
  ThreadPool pool(2);
  for (const Bf16 leftover : {Bf16{0x7fc1}, Bf16{0x7f80}, Bf16{0xff80}, Bf16{0x7f7f}}) {
    for (const int tokens : {1, 2, 37, 64, 65, 512, 513, 575}) {
      Fixture clean({6, 2, 64}, 12, 31);
      Fixture dirty({6, 2, 64}, 12, 31);
      const std::size_t values = std::size_t{12} * 2 * 2 * 64 * 64;
      std::fill_n(dirty.cache().k(0, 0, 0), values, leftover);
      const Fixture::Sequence a = clean.add_sequence(tokens);
      const Fixture::Sequence b = dirty.add_sequence(tokens);
      REQUIRE(a.k == b.k);
      for (const Path& path : paths()) {
        CAPTURE(path.name, leftover, tokens);
        const int rows = std::min(tokens, 20);
        const std::vector<Bf16> expected = clean.attend(path, {{&a, tokens - rows, rows}}, pool);
        REQUIRE(all_finite(expected));
        REQUIRE(dirty.attend(path, {{&b, tokens - rows, rows}}, pool) == expected);
      }
    }
  }
}

TEST_CASE("A later token's NaN or infinity stays out of earlier rows, and shows in its own") {
  ThreadPool pool(2);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const int at : {63, 64, 70, 511, 512, 520}) {
      Fixture fixture({9, 3, 64}, 12, 32);
      Fixture::Sequence sequence = fixture.add_sequence(540);
      std::vector<std::vector<Bf16>> expected;
      for (const Path& path : paths()) expected.push_back(fixture.attend(path, {{&sequence, at - 12, 12}}, pool));
      for (std::size_t c = 0; c < fixture.kv_row(); ++c) {
        sequence.v[static_cast<std::size_t>(at) * fixture.kv_row() + c] = bad;
        sequence.k[static_cast<std::size_t>(at) * fixture.kv_row() + c] = kNan;
      }
      fixture.store(sequence, at);
      for (std::size_t p = 0; p < paths().size(); ++p) {
        CAPTURE(paths()[p].name, bad, at);
        const std::vector<Bf16> out = fixture.attend(paths()[p], {{&sequence, at - 12, 20}}, pool);
        REQUIRE(std::vector<Bf16>(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(expected[p].size())) == expected[p]);
        REQUIRE(all_nan(fixture.row(out, 12)));
        REQUIRE(fixture.alone(paths()[p], sequence, at + 3) == fixture.row(out, 15));
      }
    }
  }
}

/// Sets K of `position` to `value` in every channel.
void set_key(Fixture& fixture, Fixture::Sequence& sequence, int position, float value) {
  const std::size_t begin = static_cast<std::size_t>(position) * fixture.kv_row();
  for (std::size_t c = 0; c < fixture.kv_row(); ++c) sequence.k[begin + c] = value;
  fixture.store(sequence, position);
}

TEST_CASE("Keys whose score is -infinity weigh nothing, even where they fill a block or a chunk") {
  ThreadPool pool(2);
  Fixture fixture({4, 2, 64}, 24, 33);
  Fixture::Sequence sequence = fixture.add_sequence(1100);
  for (Bf16& x : sequence.q) x = float_to_bf16(1.0f);
  const auto v_of = [&](int position) { return sequence.v[static_cast<std::size_t>(position) * fixture.kv_row()]; };
  for (int position = 0; position < 1100; ++position) set_key(fixture, sequence, position, -3e38f);
  for (const int lone : {0, 100, 600, 1099}) {
    set_key(fixture, sequence, lone, 0.5f);
    for (const Path& path : paths()) {
      CAPTURE(path.name, lone);
      const std::vector<Bf16> out = fixture.attend(path, {{&sequence, 1099, 1}}, pool);
      REQUIRE(out[0] == float_to_bf16(v_of(lone)));
      REQUIRE(all_finite(out));
    }
    set_key(fixture, sequence, lone, -3e38f);
  }
  for (const Path& path : paths()) {
    CAPTURE(path.name);
    REQUIRE(all_nan(fixture.attend(path, {{&sequence, 1099, 1}}, pool)));  // No weight at all: 0 / 0.
  }
}

TEST_CASE("Sums that are flushed to a negative zero have the same sign alone and among others") {
  ThreadPool pool(1);
  for (const int last : {4, 5}) {  // Either token of a pair: processors differ in which one they add first.
    Fixture fixture({6, 2, 64}, 4, 35);
    Fixture::Sequence sequence = fixture.add_sequence(40);
    for (Bf16& x : sequence.q) x = float_to_bf16(1.0f);
    for (float& x : sequence.v) x = 0.0f;
    const std::size_t begin = static_cast<std::size_t>(last) * fixture.kv_row();
    for (std::size_t c = 0; c < fixture.kv_row(); ++c) sequence.v[begin + c] = -std::numeric_limits<float>::min();
    for (int position = 0; position < 40; ++position) set_key(fixture, sequence, position, position == last ? -0.4f : 0.0f);
    for (const Path& path : paths()) {
      CAPTURE(path.name, last);
      REQUIRE(fixture.row(fixture.attend(path, {{&sequence, last, 35}}, pool), 0) == fixture.alone(path, sequence, last));
    }
  }
}

TEST_CASE("The largest of huge finite scores takes all the weight") {
  ThreadPool pool(1);
  Fixture fixture({4, 2, 64}, 12, 34);
  Fixture::Sequence sequence = fixture.add_sequence(600);
  for (Bf16& x : sequence.q) x = float_to_bf16(1.0f);
  for (int position = 0; position < 600; ++position) set_key(fixture, sequence, position, position == 77 ? 2e35f : -2e35f);
  for (const Path& path : paths()) {
    CAPTURE(path.name);
    const std::vector<Bf16> out = fixture.attend(path, {{&sequence, 580, 20}}, pool);
    const float expected = sequence.v[77 * fixture.kv_row()];
    for (int r = 0; r < 20; ++r) REQUIRE(fixture.row(out, r)[0] == float_to_bf16(expected));
  }
}

/// Slots of a plane that stand for a value.
std::vector<bool> coded_slots(const quant::PlaneUnit& unit) {
  std::vector<bool> coded(quant::unit_slots(unit));
  quant::for_each_value(unit, [&](std::size_t slot, std::size_t) { coded[slot] = true; });
  return coded;
}

TEST_CASE("Nibbles of a plane that stand for no value never count") {
  ThreadPool pool(2);
  for (const int head_dim : {64, 80, 34}) {
    for (const bool wide : {false, true}) {
      Fixture fixture({4, 2, head_dim}, 8, 36);
      AnchorFixture anchors(fixture, wide);
      const Fixture::Sequence sequence = fixture.add_sequence(200);
      anchors.code(sequence, 3);
      const AnchorView planes = anchors.view();
      const std::vector<Fixture::Part> parts = {{&sequence, 192, 8, 3}};
      std::vector<std::vector<Bf16>> expected;
      for (const Path& path : paths()) expected.push_back(fixture.attend(path, parts, pool, &planes));
      for (int index = 0; index < 3; ++index) {
        for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
          const quant::PlaneUnit unit = anchors.unit(part, index == 0);
          const std::vector<bool> coded = coded_slots(unit);
          const std::span<std::byte> plane = anchors.anchor(sequence, index, part);
          const std::size_t parts_of_codes = unit.wide_anchor ? 2 : 1;
          std::byte* const codes = plane.data() + plane.size() - parts_of_codes * coded.size() / 2;
          for (std::size_t i = 0; i < parts_of_codes * coded.size(); ++i) {
            if (!coded[i % coded.size()]) codes[i / 2] |= std::byte{15} << (i % 2 * 4);
          }
        }
      }
      for (std::size_t p = 0; p < paths().size(); ++p) {
        CAPTURE(paths()[p].name, head_dim, wide);
        REQUIRE(fixture.attend(paths()[p], parts, pool, &planes) == expected[p]);
      }
    }
  }
}

TEST_CASE("Planes of any bytes give numbers, but for sinks that are none") {
  ThreadPool pool(2);
  std::mt19937 random(37);
  for (const bool wide : {false, true}) {
    Fixture fixture({4, 2, 80}, 24, 37);
    AnchorFixture anchors(fixture, wide);
    const Fixture::Sequence sequence = fixture.add_sequence(1100);
    anchors.code(sequence, 17);
    const AnchorView planes = anchors.view();
    for (int index = 0; index < 17; ++index) {
      for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
        const std::size_t sinks = index == 0 ? 2 * 4 * 80 * sizeof(Bf16) : 0;
        for (std::byte& byte : anchors.anchor(sequence, index, part).subspan(sinks)) byte = static_cast<std::byte>(random());
      }
    }
    for (const Path& path : paths()) {
      CAPTURE(path.name, wide);
      REQUIRE(all_finite(fixture.attend(path, {{&sequence, 1088, 12, 17}}, pool, &planes)));
    }
    for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
      const std::span<std::byte> plane = anchors.anchor(sequence, 0, part);
      const std::vector<std::byte> before(plane.begin(), plane.end());
      std::fill_n(plane.begin(), 2 * 4 * 80 * sizeof(Bf16), std::byte{0x7f});
      for (std::size_t i = 0; i < 2 * 4 * 80 * sizeof(Bf16); i += 2) plane[i] = std::byte{0xc0};  // NaN
      for (const Path& path : paths()) {
        CAPTURE(path.name, wide);
        REQUIRE(all_nan(fixture.attend(path, {{&sequence, 1088, 12, 17}}, pool, &planes)));
      }
      std::copy(before.begin(), before.end(), plane.begin());
    }
  }
}

}  // namespace
}  // namespace lynx::attention
