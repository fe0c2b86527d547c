// Between KV blocks and the units that cross the network, in every transfer mode.

#include "server/cache_units.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "quant/plane_codec.h"
#include "tests/catch.h"

using namespace lynx;
using namespace lynx::server;

namespace {

const kv::KvShape kShape{.layers = 2, .kv_heads = 3, .head_dim = 64};
constexpr int kBlocks = 6;

PromptCoding coding_of(TransferMode mode) {
  // Both kinds of Anchors.
  return {.mode = mode, .profile = {.wide_k = {false, true}}, .isa = Isa::kPortable};
}

/// A prompt of random values in blocks that do not follow each other.
struct Prompt {
  kv::KvCache cache;
  std::vector<kv::BlockId> blocks;
  int tokens;

  PromptBlocks view() { return {&cache, blocks, tokens}; }
};

Prompt empty_prompt(int tokens, std::vector<kv::BlockId> order) {
  auto cache = kv::KvCache::create(kShape, kBlocks);
  REQUIRE(cache.ok());
  order.resize(static_cast<std::size_t>(kv::blocks_for(tokens)));
  return {std::move(cache).value(), std::move(order), tokens};
}

Prompt random_prompt(int tokens, unsigned seed) {
  Prompt prompt = empty_prompt(tokens, {3, 1, 0, 5, 2});
  std::mt19937 random(seed);
  std::vector<float> k(3 * 64);
  std::vector<float> v(3 * 64);
  for (int layer = 0; layer < kShape.layers; ++layer) {
    for (int position = 0; position < tokens; ++position) {
      for (float& value : k) value = static_cast<float>(random() % 2000) / 500 - 2;
      for (float& value : v) value = static_cast<float>(random() % 2000) / 5000 - 0.2F;
      prompt.cache.store(layer, prompt.blocks.data(), position, k.data(), v.data());
    }
  }
  return prompt;
}

/// Every value bit for bit.
bool equal(const Prompt& a, const Prompt& b) {
  for (int layer = 0; layer < kShape.layers; ++layer) {
    for (int block = 0; block < kv::blocks_for(a.tokens); ++block) {
      const int tokens = std::min(kv::kBlockTokens, a.tokens - block * kv::kBlockTokens);
      for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
        std::vector<Bf16> x(kv::unit_values(kShape, tokens));
        std::vector<Bf16> y(x.size());
        kv::read_unit(a.cache, layer, a.blocks[static_cast<std::size_t>(block)], part, tokens, x);
        kv::read_unit(b.cache, layer, b.blocks[static_cast<std::size_t>(block)], part, tokens, y);
        if (std::memcmp(x.data(), y.data(), x.size() * sizeof(Bf16)) != 0) return false;
      }
    }
  }
  return true;
}

/// Sends one unit, also as it must not come; its bytes.
std::uint32_t send(UnitSource& source, UnitSink& sink, transport::UnitKey unit) {
  std::vector<std::byte> bytes(largest_unit_bytes(kShape));
  const auto coded = source.read(unit, bytes);
  unit.plane = coded.plane;
  const auto whole = std::span<const std::byte>(bytes).first(coded.bytes);
  CHECK(sink.place(unit, whole).ok());
  CHECK(sink.place(unit, whole.first(coded.bytes - 1)).code() == Code::kDataLoss);
  CHECK(sink.place(unit, whole).ok());
  return coded.bytes;
}

struct Sent {
  std::uint64_t first = 0;
  std::uint64_t residuals = 0;
};

/// All units of a prompt, each step as a whole.
Sent send_all(Prompt& from, Prompt& to, const PromptCoding& coding, kv::AnchorCache* anchors, double noise = 0) {
  const auto source = make_cache_source(from.view(), coding);
  const auto sink = make_cache_sink(to.view(), coding, anchors, noise);
  Sent sent;
  std::vector<transport::UnitKey> residuals;
  for (int layer = 0; layer < kShape.layers; ++layer) {
    const CompletedUnits units = completed_units(layer, 0, from.tokens, from.tokens, coding);
    for (const transport::UnitKey& unit : units.first) sent.first += send(*source, *sink, unit);
    residuals.insert(residuals.end(), units.residuals.begin(), units.residuals.end());
  }
  for (const transport::UnitKey& unit : residuals) sent.residuals += send(*source, *sink, unit);
  return sent;
}

kv::AnchorCache make_anchors() {
  auto anchors = kv::AnchorCache::create(kShape.layers, kBlocks, largest_anchor_bytes(kShape));
  REQUIRE(anchors.ok());
  return std::move(anchors).value();
}

}  // namespace

TEST_CASE("however a prompt is cut into chunks, every unit is complete exactly once, and not before its tokens are stored") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const PromptCoding coding = coding_of(kTransferModes[static_cast<std::size_t>(round) % kTransferModes.size()]);
    const int tokens = 1 + static_cast<int>(random() % 700);
    using Seen = std::set<std::tuple<std::uint32_t, transport::Part>>;
    Seen first;
    Seen residuals;
    const auto take = [&](const std::vector<transport::UnitKey>& units, int end, Seen* seen) {
      for (const transport::UnitKey& unit : units) {
        CHECK(unit.layer == 1);
        CHECK(std::min(tokens, (static_cast<int>(unit.block) + 1) * kv::kBlockTokens) <= end);
        CHECK(seen->emplace(unit.block, unit.part).second);
      }
    };
    for (int start = 0; start < tokens;) {
      const int end = std::min(tokens, start + 1 + static_cast<int>(random() % 200));
      const CompletedUnits units = completed_units(1, start, end, tokens, coding);
      take(units.first, end, &first);
      take(units.residuals, end, &residuals);
      start = end;
    }
    REQUIRE(static_cast<int>(first.size()) == 2 * kv::blocks_for(tokens));
    // As the receiver expects them.
    const transport::TransferExpectation expected = expect_units(kShape, tokens, coding);
    REQUIRE(expected.residuals.empty() == !is_progressive(coding.mode));
    for (std::size_t i = 0; !expected.residuals.empty() && i < first.size(); ++i) {
      const auto part = i % 2 == 0 ? transport::Part::kK : transport::Part::kV;
      REQUIRE(expected.residuals[first.size() + i] == residuals.contains({static_cast<std::uint32_t>(i / 2), part}));
    }
  }
}

TEST_CASE("a prompt's units, through source and sink, leave the mode's view of it") {
  for (const int tokens : {1, 63, 64, 65, 128, 149, 320}) {
    const bool coded = quant::coded_blocks(tokens) > 0;
    for (const TransferMode mode : kTransferModes) {
      CAPTURE(tokens, transfer_mode_name(mode));
      const PromptCoding coding = coding_of(mode);
      Prompt from = random_prompt(tokens, 5);
      Prompt to = empty_prompt(tokens, {0, 2, 3, 4, 5});
      kv::AnchorCache anchors = make_anchors();
      const Sent sent = send_all(from, to, coding, is_progressive(mode) ? &anchors : nullptr);
      CHECK(equal(from, to) == (full_view(mode) == FullView::kExact || !coded));
      // A few tokens alone cannot be coded in fewer bytes.
      if (tokens >= kv::kBlockTokens) CHECK((sent.first == prompt_cache_bytes(kShape, tokens)) == (mode == TransferMode::kBf16));
      CHECK((sent.residuals > 0) == (is_progressive(mode) && coded));
      // The oracle computes the same view in place.
      apply_full_view(from.view(), coding);
      CHECK(equal(from, to));
    }
  }
}

TEST_CASE("noise spoils what drafting reads, and nothing that is decoded") {
  for (const TransferMode mode : {TransferMode::kProgressiveInt8, TransferMode::kProgressiveExact}) {
    const PromptCoding coding = coding_of(mode);
    Prompt from = random_prompt(149, 7);
    Prompt plain = empty_prompt(149, {0, 2, 3});
    Prompt noisy = empty_prompt(149, {0, 2, 3});
    kv::AnchorCache right = make_anchors();
    kv::AnchorCache spoiled = make_anchors();
    send_all(from, plain, coding, &right);
    send_all(from, noisy, coding, &spoiled, 0.25);
    CHECK(equal(plain, noisy));
    const auto a = right.plane(0, 0, kv::KvPart::kK);
    const auto b = spoiled.plane(0, 0, kv::KvPart::kK);
    CHECK_FALSE(std::equal(a.begin(), a.end(), b.begin()));
  }
}
