// What must never change unnoticed: the code tables, the example of docs/plane_format.md, and the bytes of whole units.

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "quant/residual_code.h"
#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"

namespace lynx::quant {
namespace {

TEST_CASE("The exact Residual's codes are those that tests/goldens/make_residual_codes.py derives") {
  std::ifstream in("tests/goldens/quant/residual_codes.txt");
  REQUIRE(in.good());
  for (const bool wide : {false, true}) {
    for (int index = 0; index < kResidualContexts; ++index) {
      const ResidualContext& context = residual_code(wide).contexts[index];
      std::ostringstream ours;
      ours << (wide ? "wide " : "anchor ") << index << ' ' << context.lowest;
      for (int symbol = 0; symbol <= context.escape; ++symbol) ours << ' ' << int{context.code.lengths.of[symbol]};
      std::string expected;
      REQUIRE(std::getline(in, expected));
      CHECK(ours.str() == expected);
    }
  }
}

PlaneBytes bytes_of(const std::string& hex) {
  PlaneBytes bytes;
  std::istringstream in(hex);
  for (unsigned byte = 0; in >> std::hex >> byte;) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

/// `parts` lie where they are said to; all else is 0.
struct Part {
  std::size_t at;
  const char* hex;
};
void check_bytes(const PlaneBytes& bytes, std::size_t size, const std::vector<Part>& parts) {
  PlaneBytes expected(size);
  for (const Part& part : parts) {
    const PlaneBytes content = bytes_of(part.hex);
    REQUIRE(part.at + content.size() <= size);
    std::copy(content.begin(), content.end(), expected.begin() + static_cast<std::ptrdiff_t>(part.at));
  }
  CHECK(bytes == expected);
}

TEST_CASE("The example of docs/plane_format.md") {
  const PlaneUnit unit{PlanePart::kK, 1, 2, false, false};
  PlaneValues values(unit_slots(unit), 0);
  for (int token = 0; token < kPlaneBlockTokens; ++token) {
    values[slot_of(unit, 0, token, 0)] = float_to_bf16(1 + static_cast<float>(token % 16) / 8);
    values[slot_of(unit, 0, token, 1)] = 0x3c00;
  }
  values[slot_of(unit, 0, 3, 0)] = 0x3fb4;
  values[slot_of(unit, 0, 0, 1)] = 0x8000;
  values[slot_of(unit, 0, 5, 1)] = 0x7fc0;
  values[slot_of(unit, 0, 15, 1)] = 0xc000;

  const PlaneBytes anchor = make_anchor(unit, values);
  const char* rest = "e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 ea eb ec ed ee ef";
  check_bytes(anchor, 1028,
              {{0, "a8 a9 08 f2 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 ea eb ec ed ee 0f"}, {260, rest}, {516, rest}, {772, rest}});
  const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
  rest = "98 98 98 98 98 98 98 98 98 98 98 98 98 98 98 98";
  check_bytes(int8, 1024, {{0, "88 98 98 9c 98 88 98 98 98 98 98 98 98 98 98 48"}, {256, rest}, {512, rest}, {768, rest}});
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  const char* first_words =
      "00 00 e0 ff 11 11 0e e0 44 44 0e e0 66 a6 0e e0 77 77 0e e0 00 00 e0 ff 99 99 0e e0 00 00 0e e0 "
      "90 24 0e e0 90 24 0e e0 90 24 0e e0 90 24 0e e0 90 24 0e e0 90 24 0e e0 90 24 0e e0 90 24 00 de";
  const char* second_words =
      "00 00 00 0e 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 00 0e 00 00 e0 00 00 00 e0 00 "
      "00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 e0 00 00 00 0e e0";
  const char* third_words = "00 e0 00 0e 00 0e 00 0e 00 0e 00 e0 00 0e 00 0e 00 0e 00 0e 00 0e 00 0e 00 0e 00 0e 00 0e 00 00";
  check_bytes(exact, 196, {{0, first_words}, {64, second_words}, {128, third_words}, {192, "c0 7f 00 80"}});

  PlaneValues view(values.size());
  REQUIRE(decode_anchor_at(unit, anchor, &view).ok());
  CHECK(view[slot_of(unit, 0, 3, 0)] == 0x3fb0);
  CHECK(view[slot_of(unit, 0, 15, 1)] == 0xbffc);
  REQUIRE(decode_int8_at(unit, anchor, int8, &view).ok());
  CHECK(view[slot_of(unit, 0, 3, 0)] == 0x3fb4);
  CHECK(view[slot_of(unit, 0, 1, 1)] == 0x3c10);
}

/// FNV-1a.
std::uint64_t hash(const PlaneBytes& bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return sum;
}

TEST_CASE("The bytes of whole units") {
  struct Golden {
    PlaneUnit unit;
    std::uint64_t anchor, int8, exact;
  };
  const Golden goldens[] = {
      {{PlanePart::kK, 3, 64, true, false}, 0x79905ffae106aebc, 0x1b470f76f208f665, 0xffe42b6c71443260},
      {{PlanePart::kK, 3, 64, false, true}, 0xfa9de29c65acc074, 0, 0x8bccd6bf9e4e17e8},
      {{PlanePart::kV, 2, 80, false, false}, 0xa265f99f6b514121, 0x6451ee16fbd85dd1, 0xde6591cf256d8b79},
  };
  for (const Golden& golden : goldens) {
    CAPTURE(static_cast<int>(golden.unit.part), golden.unit.head_dim, golden.unit.wide_anchor);
    PlaneValues values(unit_slots(golden.unit));
    std::uint32_t state = 1;
    for (Bf16& value : values) {
      std::int32_t sum = 0;  // Of four: about normal.
      for (int i = 0; i < 4; ++i) {
        state = state * 1664525 + 1013904223;
        sum += static_cast<std::int32_t>(state >> 16) - 32768;
      }
      value = float_to_bf16(static_cast<float>(sum) * 0x1p-15f);
    }
    const PlaneBytes anchor = make_anchor(golden.unit, values);
    CHECK(hash(anchor) == golden.anchor);
    if (!golden.unit.wide_anchor) CHECK(hash(make_int8_residual(golden.unit, anchor, values)) == golden.int8);
    CHECK(hash(make_exact_residual(golden.unit, anchor, values)) == golden.exact);
  }
}

}  // namespace
}  // namespace lynx::quant
