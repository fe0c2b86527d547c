#include "transport/ack_message.h"

#include <algorithm>
#include <random>
#include <string>

#include "tests/catch.h"

namespace lynx::transport {
namespace {

AckMessage example() {
  AckMessage ack;
  ack.credit_bytes[0] = 4 << 20;
  ack.credit_bytes[1] = 256 << 10;
  ack.acked = {{7, 7}, {9, 1000}};
  ack.rejected = {8};
  ack.missing = {{29, Part::kV, Plane::kLossless, 93}};
  return ack;
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

TEST_CASE("The worked acknowledgement of docs/wire_format.md") {
  CHECK(hex(encode_ack(example())) ==
        "0000020001000100"
        "0000400000000400"
        "0700000007000000"
        "09000000e8030000"
        "08000000"
        "1d0001015d000000");
}

AckMessage random_ack(std::mt19937& random) {
  AckMessage ack;
  ack.phase = static_cast<TicketPhase>(random() % 3);
  for (std::uint32_t& credit : ack.credit_bytes) credit = static_cast<std::uint32_t>(random());
  for (std::size_t i = random() % (kAckListMax + 1); i > 0; --i) {
    auto first = static_cast<std::uint32_t>(random());
    ack.acked.push_back({first, std::max(first, static_cast<std::uint32_t>(random()))});
  }
  for (std::size_t i = random() % (kAckListMax + 1); i > 0; --i) ack.rejected.push_back(static_cast<std::uint32_t>(random()));
  for (std::size_t i = random() % (kAckListMax + 1); i > 0; --i) {
    ack.missing.push_back({static_cast<std::uint16_t>(random()), static_cast<Part>(random() % 2), static_cast<Plane>(random() % 7),
                           static_cast<std::uint32_t>(random())});
  }
  return ack;
}

TEST_CASE("An acknowledgement comes back as it was") {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const AckMessage ack = random_ack(random);
    const auto bytes = encode_ack(ack);
    CHECK(bytes.size() <= kAckBytesMax);
    auto decoded = decode_ack(bytes);
    REQUIRE(decoded.ok());
    CHECK(decoded->phase == ack.phase);
    CHECK(decoded->credit_bytes[0] == ack.credit_bytes[0]);
    CHECK(decoded->credit_bytes[1] == ack.credit_bytes[1]);
    CHECK(decoded->acked == ack.acked);
    CHECK(decoded->rejected == ack.rejected);
    CHECK(decoded->missing == ack.missing);
  }
}

TEST_CASE("A bad acknowledgement is refused by name") {
  const auto good = encode_ack(example());
  struct Case {
    std::size_t at;
    int value;
    const char* word;
  };
  for (const Case& each :
       {Case{0, 3, "phase 3"}, Case{1, 1, "reserved"}, Case{2, 65, "too long"}, Case{5, 1, "too long"}, Case{2, 1, "bytes"},
        Case{6, 2, "bytes"}, Case{20, 6, "range 7 … 6"}, Case{38, 2, "part 2"}, Case{39, 7, "plane 7"}}) {
    CAPTURE(each.at, each.value);
    auto bad = good;
    bad[each.at] = static_cast<std::byte>(each.value);
    auto decoded = decode_ack(bad);
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().code() == Code::kDataLoss);
    CHECK(decoded.status().message().find(each.word) != std::string::npos);
  }
  for (std::size_t size = 0; size < good.size(); ++size) CHECK_FALSE(decode_ack(std::span(good).first(size)).ok());
}

TEST_CASE("Random and damaged bytes are refused, or mean what they would be encoded to") {
  std::mt19937 random(6);
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    std::vector<std::byte> bytes;
    if (round % 2 == 0) {
      bytes.resize(random() % 100);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    } else {
      bytes = encode_ack(example());
      for (auto flips = 1 + random() % 3; flips > 0; --flips) {
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << (random() % 8));
      }
    }
    auto decoded = decode_ack(bytes);
    if (!decoded.ok()) continue;
    ++accepted;
    CHECK(encode_ack(*decoded) == bytes);
  }
  CHECK(accepted > 1000);
}

}  // namespace
}  // namespace lynx::transport
