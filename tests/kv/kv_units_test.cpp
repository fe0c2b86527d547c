#include "kv/kv_units.h"

#include <random>
#include <vector>

#include "tests/catch.h"

namespace lynx::kv {
namespace {

constexpr KvShape kShapes[] = {{2, 3, 64}, {2, 2, 80}, {2, 1, 128}, {2, 2, 256}, {2, 1, 2}, {3, 8, 32}};
constexpr int kBlocks = 3;

struct Place {
  int layer;
  BlockId block;
};

KvCache make_cache(KvShape shape) {
  Result<KvCache> cache = KvCache::create(shape, kBlocks);
  REQUIRE(cache.ok());
  return std::move(cache).value();
}

std::size_t cache_values(const KvShape& shape) {
  return static_cast<std::size_t>(KvCache::block_bytes(shape)) / sizeof(Bf16) * kBlocks;
}

std::vector<Bf16> snapshot(const KvCache& cache) {
  return {cache.k(0, 0, 0), cache.k(0, 0, 0) + cache_values(cache.shape())};
}

std::vector<Bf16> random_values(std::size_t count, std::mt19937& random) {
  std::vector<Bf16> values(count);
  for (Bf16& value : values) value = static_cast<Bf16>(random() | 1);  // Never zero: a slot that is cleared is seen.
  return values;
}

/// Values everywhere: in slots of no token and in channels beyond head_dim too.
void fill(KvCache& cache, std::mt19937& random) {
  const std::vector<Bf16> values = random_values(cache_values(cache.shape()), random);
  std::copy(values.begin(), values.end(), cache.k(0, 0, 0));
}

/// Where a unit of `tokens` tokens holds (head, token, channel).
std::size_t unit_index(KvPart part, int tokens, int dim, int head, int token, int channel) {
  const int held = (tokens + 15) / 16 * 16;
  const int head_at = head * held * dim;
  const int k = ((token / 16 * (dim / 2) + channel / 2) * 16 + token % 16) * 2 + channel % 2;
  const int v = ((channel / 16 * (held / 2) + token / 2) * 16 + channel % 16) * 2 + token % 2;
  return static_cast<std::size_t>(head_at + (part == KvPart::kK ? k : v));
}

template <class Cache>
auto* slot(Cache& cache, Place place, KvPart part, int head, int token, int channel) {
  return part == KvPart::kK
             ? cache.k(place.layer, place.block, head) + k_index(token, channel, stored_head_dim(cache.shape().head_dim))
             : cache.v(place.layer, place.block, head) + v_index(token, channel);
}

/// The slots of a unit that differ from what they should be.
int wrong_slots(const KvCache& cache, Place place, KvPart part, int tokens, std::span<const Bf16> unit) {
  const int dim = stored_head_dim(cache.shape().head_dim);
  int wrong = 0;
  for (int head = 0; head < cache.shape().kv_heads; ++head) {
    for (int token = 0; token < (tokens + 15) / 16 * 16; ++token) {
      for (int channel = 0; channel < dim; ++channel) {
        const Bf16 expected = token < tokens ? *slot(cache, place, part, head, token, channel) : Bf16{0};
        wrong += unit[unit_index(part, tokens, dim, head, token, channel)] == expected ? 0 : 1;
      }
    }
  }
  return wrong;
}

TEST_CASE("A unit holds the values of its tokens, in order, and zeros beyond them") {
  std::mt19937 random(11);
  const Place place{1, 2};
  for (const KvShape& shape : kShapes) {
    KvCache cache = make_cache(shape);
    fill(cache, random);
    for (const KvPart part : {KvPart::kK, KvPart::kV}) {
      for (int tokens = 1; tokens <= kBlockTokens; ++tokens) {
        CAPTURE(shape.head_dim, static_cast<int>(part), tokens);
        const std::size_t values = unit_values(shape, tokens);
        const auto held = static_cast<std::size_t>((tokens + 15) / 16 * 16);
        REQUIRE(values == static_cast<std::size_t>(shape.kv_heads * stored_head_dim(shape.head_dim)) * held);
        std::vector<Bf16> unit(values, 0x5555);
        read_unit(cache, place.layer, place.block, part, tokens, unit);
        if (wrong_slots(cache, place, part, tokens, unit) != 0) FAIL("wrong slots");
      }
    }
  }
}

/// What the cache should be after `unit` is written: computed slot by slot.
void write_expected(KvCache& cache, Place place, KvPart part, int tokens, std::span<const Bf16> unit) {
  const KvShape& shape = cache.shape();
  const int dim = stored_head_dim(shape.head_dim);
  for (int head = 0; head < shape.kv_heads; ++head) {
    for (int token = 0; token < (tokens + 15) / 16 * 16; ++token) {
      for (int channel = 0; channel < dim; ++channel) {
        const bool real = token < tokens && channel < shape.head_dim;
        *slot(cache, place, part, head, token, channel) =
            real ? unit[unit_index(part, tokens, dim, head, token, channel)] : Bf16{0};
      }
    }
  }
}

TEST_CASE("Writing a unit fills its tokens, zeroes the rest of the last group, and touches nothing else") {
  std::mt19937 random(12);
  const Place place{1, 1};
  for (const KvShape& shape : kShapes) {
    KvCache cache = make_cache(shape);
    KvCache expected = make_cache(shape);
    for (const KvPart part : {KvPart::kK, KvPart::kV}) {
      for (int tokens = 1; tokens <= kBlockTokens; ++tokens) {
        CAPTURE(shape.head_dim, static_cast<int>(part), tokens);
        fill(cache, random);
        const std::vector<Bf16> before = snapshot(cache);
        std::copy(before.begin(), before.end(), expected.k(0, 0, 0));
        const std::vector<Bf16> unit = random_values(unit_values(shape, tokens), random);
        write_unit(cache, place.layer, place.block, part, tokens, unit);
        write_expected(expected, place, part, tokens, unit);
        if (snapshot(cache) != snapshot(expected)) FAIL("the cache is not as it should be");
      }
    }
  }
}

TEST_CASE("Read, written elsewhere and read again, a unit is the same; so are the tokens") {
  std::mt19937 random(13);
  for (const KvShape& shape : kShapes) {
    KvCache from = make_cache(shape);
    KvCache to = make_cache(shape);
    fill(to, random);
    std::vector<float> k(static_cast<std::size_t>(shape.kv_heads * shape.head_dim));
    std::vector<float> v(k.size());
    std::normal_distribution<float> normal;
    const BlockId block = 2;
    for (int tokens = 1; tokens <= kBlockTokens; ++tokens) {
      for (float& x : k) x = normal(random);
      for (float& x : v) x = normal(random);
      from.store(1, &block, tokens - 1, k.data(), v.data());
      for (const KvPart part : {KvPart::kK, KvPart::kV}) {
        CAPTURE(shape.head_dim, static_cast<int>(part), tokens);
        std::vector<Bf16> unit(unit_values(shape, tokens));
        std::vector<Bf16> again(unit.size());
        read_unit(from, 1, block, part, tokens, unit);
        write_unit(to, 0, 1, part, tokens, unit);
        read_unit(to, 0, 1, part, tokens, again);
        REQUIRE(unit == again);
        REQUIRE(wrong_slots(to, {0, 1}, part, tokens, unit) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace lynx::kv
