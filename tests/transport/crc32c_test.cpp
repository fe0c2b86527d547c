#include "transport/crc32c.h"

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "tests/catch.h"

namespace lynx::transport {
namespace {

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

// One bit at a time, straight from the polynomial.
std::uint32_t oracle(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

TEST_CASE("CRC-32C gives the published values") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xe3069283);
  std::vector<std::byte> zeros(32);
  CHECK(crc32c(zeros) == 0x8a9136aa);  // RFC 3720, B.4.
  std::vector<std::byte> ones(32, std::byte{0xff});
  CHECK(crc32c(ones) == 0x62a8ab43);
}

TEST_CASE("CRC-32C equals the bitwise definition at every length around the chains, whole or in pieces") {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(3 * 1024 * 2 + 40);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t size : {1U, 7U, 8U, 9U, 1023U, 3071U, 3072U, 3073U, 3080U, 6143U, 6144U, 6184U}) {
    CAPTURE(size);
    auto part = std::span<const std::byte>(bytes).first(size);
    std::uint32_t expected = oracle(part);
    CHECK(crc32c(part) == expected);
    std::size_t cut = size / 3;
    CHECK(crc32c(part.subspan(cut), crc32c(part.first(cut))) == expected);
  }
}

}  // namespace
}  // namespace lynx::transport
