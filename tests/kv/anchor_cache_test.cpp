#include "kv/anchor_cache.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace lynx::kv {
namespace {

constexpr int kLayers = 3;
constexpr int kBlocks = 5;

AnchorCache make_planes(AnchorPlaneBytes plane_bytes) {
  Result<AnchorCache> planes = AnchorCache::create(kLayers, kBlocks, plane_bytes);
  REQUIRE(planes.ok());
  return std::move(planes).value();
}

template <class Body>
void for_each_plane(Body body) {
  int number = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (BlockId block = 0; block < kBlocks; ++block) {
      for (const KvPart part : {KvPart::kK, KvPart::kV}) body(layer, block, part, static_cast<std::byte>(++number));
    }
  }
}

TEST_CASE("Anchor planes have their size, start on a cache line as zeros, and share no byte") {
  for (const AnchorPlaneBytes bytes : {AnchorPlaneBytes{1, 1}, {1, 64}, {63, 65}, {64, 0}, {65, 1}, {17408, 7680}}) {
    CAPTURE(bytes.k, bytes.v);
    AnchorCache planes = make_planes(bytes);
    for_each_plane([&](int layer, BlockId block, KvPart part, std::byte number) {
      const std::span<std::byte> plane = planes.plane(layer, block, part);
      REQUIRE(plane.size() == (part == KvPart::kK ? bytes.k : bytes.v));
      REQUIRE(reinterpret_cast<std::uintptr_t>(plane.data()) % 64 == 0);
      REQUIRE(std::all_of(plane.begin(), plane.end(), [](std::byte b) { return b == std::byte{0}; }));
      std::fill(plane.begin(), plane.end(), number);
    });
    const AnchorCache moved = std::move(planes);
    for_each_plane([&](int layer, BlockId block, KvPart part, std::byte number) {
      const std::span<const std::byte> plane = moved.plane(layer, block, part);
      REQUIRE(plane.size() == (part == KvPart::kK ? bytes.k : bytes.v));
      REQUIRE(std::all_of(plane.begin(), plane.end(), [&](std::byte b) { return b == number; }));
    });
  }
}

TEST_CASE("A block of planes takes whole cache lines for K and V of each layer") {
  CHECK(AnchorCache::block_bytes(1, {1, 64}) == 2 * 64);
  CHECK(AnchorCache::block_bytes(1, {65, 64}) == 3 * 64);
  CHECK(AnchorCache::block_bytes(30, {65, 129}) == 30 * (128 + 192));
  CHECK(AnchorCache::block_bytes(4096, {1 << 20, 1 << 20}) == std::int64_t{2} * 4096 * (1 << 20));
  CHECK(AnchorCache::block_bytes(5, {}) == 0);
}

TEST_CASE("Anchor planes that are too large are refused by name") {
  for (const int blocks : {1 << 20, 2147483647}) {  // More than there are addresses; more than 64 bits hold.
    const Status huge = AnchorCache::create(4096, blocks, {1 << 24, 1 << 24}).status();
    CHECK(huge.code() == Code::kResourceExhausted);
    CHECK(huge.message().find("anchor planes") != std::string::npos);
    CHECK(huge.message().find("GiB") != std::string::npos);
  }
}

}  // namespace
}  // namespace lynx::kv
