#include "quant/exponent_code.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace lynx::quant {
namespace {

using Counts = std::uint32_t[kExponents];

std::uint64_t cost(const Counts& counts, const CodeLengths& lengths) {
  std::uint64_t bits = 0;
  for (int e = 0; e < kExponents; ++e) bits += std::uint64_t{counts[e]} * lengths.of[e];
  return bits;
}

/// The least cost of any prefix code with words of 1 to 8 bits: a knapsack over Kraft's sum, in 256ths.
std::uint64_t least_cost(const Counts& counts) {
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> best(257, kNever);
  best[0] = 0;
  for (const std::uint32_t count : counts) {
    if (count == 0) continue;
    std::vector<std::uint64_t> next(257, kNever);
    for (std::size_t used = 0; used <= 256; ++used) {
      for (unsigned length = 1; length <= 8 && best[used] != kNever; ++length) {
        const std::size_t sum = used + (256U >> length);
        if (sum <= 256) next[sum] = std::min(next[sum], best[used] + std::uint64_t{count} * length);
      }
    }
    best = next;
  }
  return *std::min_element(best.begin(), best.end());
}

void check_code(const Counts& counts) {
  const ExponentCode code = make_code(counts);
  ExponentTable table;
  REQUIRE(make_table(code.lengths, &table));
  for (int e = 0; e < kExponents; ++e) {
    const int length = code.lengths.of[e];
    if (counts[e] != 0) REQUIRE(length > 0);
    for (int rest = 0; length > 0 && rest < 1 << (8 - length); ++rest) {
      const int next = code.words[e] << (8 - length) | rest;
      REQUIRE(table.exponents[next] == e);
      REQUIRE(table.lengths[next / 2] == length);
    }
  }
  REQUIRE(cost(counts, code.lengths) == least_cost(counts));

  std::byte bytes[kMostTableBytes];
  const std::size_t size = write_lengths(code.lengths, bytes);
  REQUIRE(size >= 2);
  REQUIRE(size <= kMostTableBytes);
  CodeLengths back;
  REQUIRE(read_lengths(bytes, kMostTableBytes, &back) == size);
  REQUIRE(std::memcmp(back.of, code.lengths.of, kExponents) == 0);
  for (std::size_t less = 0; less < size; ++less) REQUIRE(read_lengths(bytes, less, &back) == 0);
}

TEST_CASE("Codes are complete, optimal within eight bits, and their tables come back") {
  const std::uint64_t seed = 20260103;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    Counts counts = {};
    const std::uint64_t used = 1 + rng() % (i % 3 == 0 ? 256 : 24);
    const std::uint64_t shift = rng() % 40;
    for (std::uint64_t n = 0; n < used; ++n)
      counts[rng() % 256] = static_cast<std::uint32_t>(1 + (rng() >> (24 + rng() % (shift + 1)) & 0xffffff));
    check_code(counts);
  }
}

TEST_CASE("Special alphabets") {
  SECTION("every exponent alone") {
    for (int e = 0; e < kExponents; ++e) {
      Counts counts = {};
      counts[e] = 5;
      const ExponentCode code = make_code(counts);
      CHECK(code.lengths.of[e] == 1);
      CHECK(code.lengths.of[e ^ 1] == 1);
    }
  }
  SECTION("all exponents: eight bits each, however skewed") {
    Counts counts;
    for (int e = 0; e < kExponents; ++e) counts[e] = 1U << (e % 24);
    check_code(counts);
    const ExponentCode code = make_code(counts);
    for (const std::uint8_t length : code.lengths.of) CHECK(length == 8);
  }
  SECTION("Fibonacci counts, whose free code would have words of 40 bits") {
    Counts counts = {};
    std::uint32_t a = 1;
    std::uint32_t b = 1;
    for (int e = 90; e < 130; ++e) {
      counts[e] = a;
      b += a;
      std::swap(a, b);
    }
    check_code(counts);
  }
}

TEST_CASE("A code that is not complete, or a table that does not come out at 256, is refused") {
  CodeLengths lengths{};
  ExponentTable table;
  CHECK_FALSE(make_table(lengths, &table));
  lengths.of[3] = 1;
  CHECK_FALSE(make_table(lengths, &table));
  lengths.of[200] = 1;
  CHECK(make_table(lengths, &table));
  lengths.of[201] = 8;
  CHECK_FALSE(make_table(lengths, &table));

  const std::byte run56{0xff};  // Two runs of 56.
  const std::byte too_long[] = {run56, run56, run56};
  CHECK(read_lengths(too_long, 3, &lengths) == 0);
  const std::byte exact[] = {run56, run56, std::byte{0x0c}};  // 224 and a run of 32; the last nibble is padding.
  CHECK(read_lengths(exact, 3, &lengths) == 3);
  const std::byte padded[] = {run56, run56, std::byte{0x1c}};
  CHECK(read_lengths(padded, 3, &lengths) == 0);
}

}  // namespace
}  // namespace lynx::quant
