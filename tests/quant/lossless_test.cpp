#include "quant/lossless.h"

#include <algorithm>
#include <bit>
#include <string>

#include "tests/catch.h"
#include "tests/quant/lossless_fixture.h"

namespace lynx::quant {
namespace {

TEST_CASE("All 65,536 bit patterns come back") {
  // Units of 512 patterns, four exponents each: a unit with all 256 exponents would need eight bits for every one, and not pay.
  for (unsigned first = 0; first < 65536; first += 512) {
    CAPTURE(first);
    Values values;
    for (unsigned i = 0; i < 512; ++i) values.push_back(static_cast<Bf16>(first + i));
    REQUIRE(check_round_trip(values) > 0);
    std::rotate(values.begin(), values.begin() + 32, values.end());  // Each pattern in both places of a lane.
    REQUIRE(check_round_trip(values) > 0);
  }
}

TEST_CASE("Degenerate values come back, or do not pay") {
  for (const std::size_t count : {64U, 128U, 192U, 256U, 1024U, 3072U, 12288U}) {
    CAPTURE(count);
    for (const unsigned value : {0x0000U, 0x8000U, 0x3f80U, 0x7f80U, 0xff80U, 0x7fc0U, 0xffffU, 0x0001U, 0x7f7fU}) {
      CAPTURE(value);
      const std::size_t bytes = check_round_trip(Values(count, static_cast<Bf16>(value)));
      if (count >= 1024) {
        CHECK(bytes * 8 <= count * 10);  // One bit an exponent, the last words not full.
      }
    }
    Values nan(count);
    for (std::size_t i = 0; i < count; ++i) nan[i] = static_cast<Bf16>(0x7f81 + i % 127 + i % 2 * 0x8000);
    check_round_trip(nan);
  }
}

TEST_CASE("Fewer values than a round are never coded") {
  for (std::size_t count = 0; count < 64; ++count) {
    CHECK(check_round_trip(Values(count, 0x3f80)) == 0);
    Values back(count);
    CHECK(decode(Isa::kPortable, Bytes(200), &back).code() == Code::kDataLoss);
  }
}

TEST_CASE("Values whose exponents are uniform are left raw") {
  std::mt19937_64 rng(3);
  for (const std::size_t count : {64U, 4096U, 65536U}) {
    Values values(count);
    for (Bf16& value : values) value = static_cast<Bf16>(rng());
    CHECK(check_round_trip(values) == 0);
  }
}

TEST_CASE("Every size up to 200, and sizes about whole rounds") {
  std::mt19937_64 rng(4);
  std::vector<std::size_t> sizes;
  for (std::size_t count = 0; count <= 200; ++count) sizes.push_back(count);
  for (std::size_t count = 1024; count <= 65536; count *= 2) sizes.insert(sizes.end(), {count - 1, count, count + 1, count + 63});
  for (const std::size_t count : sizes) {
    CAPTURE(count);
    check_round_trip(Values(count, 0xc000));
    const std::size_t bytes = check_round_trip(normal_values(count, rng));
    if (count >= 1024) {
      CHECK(bytes > 0);
    }
  }
}

/// Exponents of any number and skew; signs and mantissas of any kind.
Values random_values(std::mt19937_64& rng) {
  Values values(64 + rng() % 2000);
  const std::uint64_t symbols = 1 + rng() % 256;
  const std::uint64_t first = rng();
  const std::uint64_t skew = rng() % 9;
  const std::uint64_t mask = rng() % 2 == 0 ? 0x807f : rng() & 0x807f;
  for (Bf16& value : values) {
    // The number of zeros below the first set bit is geometric: symbol s is 2^-s as frequent, or with less skew, more mixed.
    const std::uint64_t drawn =
        skew == 0 ? rng() % symbols : static_cast<std::uint64_t>(std::countr_zero(rng() | 1ULL << 63)) * skew / 4;
    value = static_cast<Bf16>((rng() & mask) | ((first + drawn % symbols) & 0xff) << 7);
  }
  return values;
}

TEST_CASE("Random alphabets and skews come back on every path") {
  const std::uint64_t seed = 20260101;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  int coded = 0;
  for (int i = 0; i < 600; ++i) {
    CAPTURE(i);
    coded += check_round_trip(random_values(rng)) > 0 ? 1 : 0;
  }
  CHECK(coded > 300);
  CHECK(coded < 600);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  return text;
}

TEST_CASE("The worked example of docs/plane_format.md") {
  Values values(258);
  for (std::size_t i = 0; i < 256; ++i) values[i] = i % 8 == 7 ? 0x4000 : 0x3f80;
  values[0] = 0xbf81;
  values[3] = 0x3f00;
  values[256] = 0x1234;
  values[257] = 0xabcd;
  check_round_trip(values);
  const std::string zeros_and_seven = "0000000000000000000000000000ffff";
  CHECK(hex(encode(Isa::kPortable, values)) ==
        "ff090000"
        "2021ff09000000"
        "0000000000000080000000000000ffff" +
            zeros_and_seven + zeros_and_seven + zeros_and_seven + std::string(128, '0') + "81" + std::string(510, '0') +
            "3412cdab");
}

/// FNV-1a.
std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211ULL;
  return hash;
}

TEST_CASE("A unit of the size of SmolLM2's: its bytes do not change, and are few") {
  Values values(12288);
  std::uint64_t state = 1;
  for (Bf16& value : values) {
    // A fixed generator, not the library's; exponent 127 − s with frequency about 2^-s.
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto exponent = static_cast<unsigned>(127 - std::countl_zero(state | 1));
    value = static_cast<Bf16>((state & 0x807f) | exponent << 7);
  }
  const Bytes coded = encode(Isa::kPortable, values);
  CHECK(check_round_trip(values) == coded.size());
  CHECK(coded.size() == 15483);
  CHECK(digest(coded) == 0xa10cbc2be6961743);
}

}  // namespace
}  // namespace lynx::quant
