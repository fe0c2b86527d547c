#include "transport/wire_header.h"

#include <random>
#include <string>

#include "tests/catch.h"
#include "transport/crc32c.h"

namespace lynx::transport {
namespace {

WireHeader example() {
  WireHeader header;
  header.lane = Lane::kBackground;
  header.ticket = {0x1122334455667788, 42};
  for (std::uint8_t i = 0; i < 16; ++i) header.secret[i] = static_cast<std::uint8_t>(0xa0 + i);
  header.epoch = 3;
  header.sequence = 1000;
  header.unit = {29, Part::kV, Plane::kLossless, 93};
  header.unit_bytes = 24576;
  header.offset = 16384;
  header.length = 8192;
  header.payload_crc = 0xdeadbeef;
  return header;
}

std::string hex(const WireBytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

// Sets a byte and seals the header again, as a careful forger would.
WireBytes forged(WireBytes bytes, std::size_t at, std::uint8_t value) {
  bytes[at] = static_cast<std::byte>(value);
  std::uint32_t crc = crc32c(std::span<const std::byte>(bytes).first(kWireHeaderBytes - 4));
  for (std::size_t i = 0; i < 4; ++i) bytes[kWireHeaderBytes - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  return bytes;
}

TEST_CASE("The worked example of docs/wire_format.md") {
  CHECK(hex(encode_header(example())) ==
        "4c594e5801010100"
        "8877665544332211"
        "2a00000000000000"
        "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
        "03000000e8030000"
        "1d0001015d000000"
        "0060000000400000"
        "00200000efbeadde"
        "0000000000000000"
        "0000000000000000"
        "00000000"
        "716cc385");
}

TEST_CASE("A header comes back as it was") {
  auto decoded = decode_header(encode_header(example()));
  REQUIRE(decoded.ok());
  CHECK(encode_header(*decoded) == encode_header(example()));
  CHECK(decoded->ticket == example().ticket);
  CHECK(decoded->unit == example().unit);
  CHECK(decoded->length == 8192);
}

TEST_CASE("Any flipped bit is noticed") {
  WireBytes good = encode_header(example());
  for (std::size_t bit = 0; bit < kWireHeaderBytes * 8; ++bit) {
    WireBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    auto decoded = decode_header(bad);
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().code() == Code::kDataLoss);
  }
}

TEST_CASE("A sealed header with values that mean nothing is refused by name") {
  WireBytes good = encode_header(example());
  struct Case {
    std::size_t at;
    std::uint8_t value;
    const char* word;
  };
  for (const Case& each : {Case{4, 9, "version 9"}, Case{5, 0, "kind 0"}, Case{5, 3, "kind 3"}, Case{6, 2, "lane 2"},
                           Case{7, 1, "reserved"}, Case{50, 2, "part 2"}, Case{51, 7, "plane 7"}, Case{80, 1, "padding"},
                           Case{66, 1, "of a unit of 24576"}, Case{63, 0xff, "of a unit of 24576"}}) {
    CAPTURE(each.at, each.value);
    auto decoded = decode_header(forged(good, each.at, each.value));
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().message().find(each.word) != std::string::npos);
  }
}

TEST_CASE("Random bytes of any size are refused") {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    CHECK_FALSE(decode_header(bytes).ok());
  }
}

}  // namespace
}  // namespace lynx::transport
