#include "kv/kv_cache.h"

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "tests/catch.h"

namespace lynx::kv {
namespace {

KvCache make_cache(KvShape shape, int blocks) {
  Result<KvCache> cache = KvCache::create(shape, blocks);
  REQUIRE(cache.ok());
  return std::move(cache).value();
}

TEST_CASE("Each (token, channel) has one slot of its own") {
  for (const int head_dim : {2, 32, 64, 80, 128, 256}) {
    const int dim = stored_head_dim(head_dim);
    CHECK(dim % 32 == 0);
    CHECK(dim - head_dim < 32);
    std::set<std::size_t> k_slots;
    std::set<std::size_t> v_slots;
    for (int token = 0; token < kBlockTokens; ++token) {
      for (int channel = 0; channel < dim; ++channel) {
        k_slots.insert(k_index(token, channel, dim));
        v_slots.insert(v_index(token, channel));
      }
    }
    const auto values = static_cast<std::size_t>(kBlockTokens * dim);
    CHECK(k_slots.size() == values);
    CHECK(*k_slots.rbegin() == values - 1);
    CHECK(v_slots.size() == values);
    CHECK(*v_slots.rbegin() == values - 1);
  }
}

TEST_CASE("The layout is the documented one") {
  CHECK(k_index(0, 1, 64) == 1);
  CHECK(k_index(1, 0, 64) == 2);
  CHECK(k_index(0, 2, 64) == 32);
  CHECK(k_index(16, 0, 64) == 1024);
  CHECK(v_index(1, 0) == 1);
  CHECK(v_index(0, 1) == 2);
  CHECK(v_index(2, 0) == 32);
  CHECK(v_index(0, 16) == 1024);
}

TEST_CASE("store() rounds ties to even, finds its slot through the table and touches nothing else") {
  const KvShape shape{3, 2, 80};
  KvCache cache = make_cache(shape, 4);
  CHECK(KvCache::block_bytes(shape) == std::int64_t{2} * 2 * 3 * 2 * 64 * 96);
  const std::vector<BlockId> table = {2, 0, 3};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const int position = 64 + 17;
  std::vector<float> k(2 * 80);
  std::vector<float> v(2 * 80);
  for (float& x : k) x = normal(random);
  for (float& x : v) x = normal(random);
  k[0] = bits_to_float(0x3f808000u);  // Half way between two BF16: down to the even one,
  v[1] = bits_to_float(0x3f818000u);  // and up to the even one.
  cache.store(1, table.data(), position, k.data(), v.data());

  for (int layer = 0; layer < shape.layers; ++layer) {
    for (BlockId block = 0; block < cache.blocks(); ++block) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        for (int token = 0; token < kBlockTokens; ++token) {
          for (int channel = 0; channel < 96; ++channel) {
            const bool written = layer == 1 && block == 0 && token == 17 && channel < 80;
            const auto at = static_cast<std::size_t>(head * 80 + channel);
            const Bf16 expected_k = written ? float_to_bf16(k[at]) : Bf16{0};
            const Bf16 expected_v = written ? float_to_bf16(v[at]) : Bf16{0};
            if (cache.k(layer, block, head)[k_index(token, channel, 96)] != expected_k) FAIL("K of token " << token);
            if (cache.v(layer, block, head)[v_index(token, channel)] != expected_v) FAIL("V of token " << token);
          }
        }
      }
    }
  }
  CHECK(cache.k(1, 0, 0)[k_index(17, 0, 96)] == 0x3f80);
  CHECK(cache.v(1, 0, 0)[v_index(17, 1)] == 0x3f82);
}

TEST_CASE("copy_block() copies every layer and head, and the copy is independent") {
  const KvShape shape{2, 3, 32};
  KvCache cache = make_cache(shape, 3);
  std::vector<float> k(3 * 32);
  std::vector<float> v(3 * 32);
  const BlockId from = 1;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int token = 0; token < kBlockTokens; ++token) {
      for (std::size_t i = 0; i < k.size(); ++i) {
        k[i] = static_cast<float>(layer * 1000 + token) + static_cast<float>(i) / 128;
        v[i] = -k[i];
      }
      cache.store(layer, &from, token, k.data(), v.data());
    }
  }
  cache.copy_block(1, 2);
  const std::size_t values = static_cast<std::size_t>(shape.kv_heads) * 2 * 64 * 32;
  for (int layer = 0; layer < shape.layers; ++layer) {
    CHECK(std::vector<Bf16>(cache.k(layer, 1, 0), cache.k(layer, 1, 0) + values) ==
          std::vector<Bf16>(cache.k(layer, 2, 0), cache.k(layer, 2, 0) + values));
    CHECK(std::vector<Bf16>(cache.k(layer, 0, 0), cache.k(layer, 0, 0) + values) == std::vector<Bf16>(values, 0));
  }
  cache.k(1, 2, 2)[0] = 0x7fc0;
  CHECK(cache.k(1, 1, 2)[0] != 0x7fc0);
}

TEST_CASE("A shape out of range or too large is refused by name") {
  CHECK(KvCache::create({2, 2, 63}, 4).status().message().find("head_dim = 63") != std::string::npos);
  CHECK(KvCache::create({2, 2, 258}, 4).status().code() == Code::kInvalidArgument);
  CHECK(KvCache::create({0, 2, 64}, 4).status().message().find("layers = 0") != std::string::npos);
  CHECK(KvCache::create({2, 0, 64}, 4).status().message().find("KV heads = 0") != std::string::npos);
  CHECK(KvCache::create({2, 2, 64}, 0).status().message().find("blocks = 0") != std::string::npos);
  const Status huge = KvCache::create({4096, 1024, 256}, 2147483647).status();
  CHECK(huge.code() == Code::kResourceExhausted);
  CHECK(huge.message().find("GiB") != std::string::npos);
}

}  // namespace
}  // namespace lynx::kv
