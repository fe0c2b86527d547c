// Damaged and forged units: an error or other values, never more. All paths must judge alike, and so must the second decoder.

#include <algorithm>
#include <string>

#include "tests/catch.h"
#include "tests/quant/lossless_fixture.h"
#include "tests/quant/lossless_reference.h"

namespace lynx::quant {
namespace {

/// Decodes on every path; whether they accepted. Values of a path that accepts must be those of the reference.
bool decode_everywhere(const Bytes& coded, std::size_t count) {
  const auto reference = reference_decode(coded, count);
  for (const Isa isa : supported_paths()) {
    CAPTURE(isa_name(isa));
    Values values(count);
    const Status status = decode(isa, coded, &values);
    REQUIRE(status.ok() == reference.has_value());
    if (reference) {
      REQUIRE(values == *reference);
    } else {
      REQUIRE(status.code() == Code::kDataLoss);
      REQUIRE(status.message().find("lossless plane: ") == 0);
    }
  }
  return reference.has_value();
}

Bytes small_unit(std::size_t count) {
  std::mt19937_64 rng(21);
  const Values values = normal_values(count, rng);
  Bytes coded = encode(Isa::kPortable, values);
  REQUIRE(!coded.empty());
  return coded;
}

TEST_CASE("The second decoder agrees with what is written") {
  std::mt19937_64 rng(20);
  for (const std::size_t count : {192U, 200U, 3072U, 12345U}) {
    const Values values = normal_values(count, rng);
    const auto back = reference_decode(encode(Isa::kPortable, values), count);
    REQUIRE(back.has_value());
    CHECK(*back == values);
  }
}

TEST_CASE("Every byte set to telling values: an error or other values") {
  constexpr std::size_t kCount = 320 + 3;
  const Bytes coded = small_unit(kCount);
  const std::size_t before_plane = coded.size() - 320 - 6;
  int refused = 0;
  for (std::size_t at = 0; at < coded.size(); ++at) {
    for (const unsigned change : {0x01U, 0x10U, 0x80U, 0x55U, 0xffU}) {
      CAPTURE(at, change);
      Bytes damaged = coded;
      damaged[at] ^= static_cast<std::byte>(change);
      const bool accepted = decode_everywhere(damaged, kCount);
      if (at >= before_plane) REQUIRE(accepted);  // Signs, mantissas and the tail may be anything.
      refused += accepted ? 0 : 1;
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("Every truncation and every wrong number of values is refused") {
  constexpr std::size_t kCount = 320;
  const Bytes coded = small_unit(kCount);
  for (std::size_t bytes = 0; bytes < coded.size(); ++bytes) {
    CAPTURE(bytes);
    CHECK_FALSE(decode_everywhere(Bytes(coded.begin(), coded.begin() + static_cast<std::ptrdiff_t>(bytes)), kCount));
  }
  Bytes longer = coded;
  longer.resize(coded.size() + 2);
  CHECK_FALSE(decode_everywhere(longer, kCount));
  for (const std::size_t count : {0U, 63U, 64U, 256U, 319U, 321U, 384U, 640U, 65536U}) {
    CAPTURE(count);
    CHECK_FALSE(decode_everywhere(coded, count));
  }
}

TEST_CASE("What is wrong is named") {
  Values values(64);
  CHECK(decode(Isa::kPortable, {}, &values).message() == "lossless plane: malformed code table");
  CHECK(decode(Isa::kPortable, Bytes(128, std::byte{0}), &values).message() ==
        "lossless plane: the code table is not a complete code");
  // 256 words of 8 bits.
  CHECK(decode(Isa::kPortable, Bytes(128, std::byte{0x88}), &values).message() == "lossless plane: 128 bytes cannot be 64 values");
  Bytes no_words(128 + 64);
  std::fill_n(no_words.begin(), 128, std::byte{0x88});
  CHECK(decode(Isa::kPortable, no_words, &values).message() == "lossless plane: the code words end early or are not used up");
  Bytes unit(128 + 64 + 64);
  std::fill_n(unit.begin(), 128, std::byte{0x88});
  CHECK(decode(Isa::kPortable, unit, &values).ok());
}

TEST_CASE("Random changes of real units, and random bytes behind a sound table") {
  const std::uint64_t seed = 20260102;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  const Bytes coded = small_unit(640);
  for (int i = 0; i < 1500; ++i) {
    CAPTURE(i);
    Bytes damaged = coded;
    for (std::uint64_t change = 0, changes = 1 + rng() % 4; change < changes; ++change) {
      const std::size_t region = rng() % 2 == 0 ? 24 : damaged.size();
      damaged[rng() % region] = static_cast<std::byte>(rng());
    }
    if (rng() % 4 == 0) damaged.resize(damaged.size() + rng() % 9 - 4);
    decode_everywhere(damaged, 640);
  }
}

}  // namespace
}  // namespace lynx::quant
