#include "attention/plan.h"

#include <random>
#include <vector>

#include "attention/chunk_kernel.h"
#include "tests/catch.h"

namespace lynx::attention {
namespace {

/// Requires every line of every span and KV head to be in one tile, and every chunk of every tile in one item.
void check_plan(const Plan& plan, const std::vector<QuerySpan>& spans, int kv_heads, int group) {
  std::vector<std::vector<int>> covered;
  for (const QuerySpan& span : spans) covered.emplace_back(static_cast<std::size_t>(span.rows * group * kv_heads), 0);
  for (const Tile& tile : plan.tiles) {
    const QuerySpan& span = spans[static_cast<std::size_t>(tile.span)];
    REQUIRE(tile.lines <= kTileLines);
    const int last_position = span.first_position + (tile.first_line + tile.lines - 1) / group;
    REQUIRE(tile.chunks == last_position / kSoftmaxChunk + 1);
    for (int l = tile.first_line; l < tile.first_line + tile.lines; ++l) {
      ++covered[static_cast<std::size_t>(tile.span)][static_cast<std::size_t>(tile.kv_head * span.rows * group + l)];
    }
  }
  for (const auto& lines : covered) REQUIRE(lines == std::vector<int>(lines.size(), 1));

  std::vector<std::vector<int>> chunks;
  for (const Tile& tile : plan.tiles) chunks.emplace_back(static_cast<std::size_t>(tile.chunks), 0);
  for (const Item& item : plan.items) {
    auto& of_tile = chunks[static_cast<std::size_t>(item.tile)];
    const bool split = plan.tiles[static_cast<std::size_t>(item.tile)].state >= 0;
    REQUIRE(split == (item.chunk != kAllChunks));
    if (split) {
      ++of_tile[static_cast<std::size_t>(item.chunk)];
    } else {
      for (int& count : of_tile) ++count;
    }
  }
  for (const auto& of_tile : chunks) REQUIRE(of_tile == std::vector<int>(of_tile.size(), 1));
}

TEST_CASE("A plan covers every line and chunk once and keeps to its memory") {
  std::mt19937 random(3);
  Plan plan;
  for (int round = 0; round < 300; ++round) {
    const int kv_heads = 1 + static_cast<int>(random() % 4);
    const int group = 1 + static_cast<int>(random() % 9);
    const int threads = 1 + static_cast<int>(random() % 4);
    std::vector<QuerySpan> spans;
    int rows = 0;
    for (int s = 0; s < 1 + static_cast<int>(random() % 5); ++s) {
      const int count = random() % 2 == 0 ? 1 : 1 + static_cast<int>(random() % 200);
      spans.push_back({nullptr, static_cast<int>(random() % 5000), count, rows});
      rows += count;
    }
    const std::ptrdiff_t most = random() % 3 == 0 ? 20000 : 8000000;
    CAPTURE(round, kv_heads, group, threads);
    plan.build(spans, kv_heads, group, 64, threads, most);
    check_plan(plan, spans, kv_heads, group);
    REQUIRE(plan.state_values <= most);
    std::ptrdiff_t next = 0;
    for (const int t : plan.split_tiles) {
      const Tile& tile = plan.tiles[static_cast<std::size_t>(t)];
      REQUIRE(tile.state == next);
      REQUIRE(tile.state % 16 == 0);
      next += std::ptrdiff_t{tile.chunks} * state_size(tile.lines, 64);
    }
    REQUIRE(next == plan.state_values);
  }
}

TEST_CASE("One long decode step is split for two threads, and not for one") {
  const std::vector<QuerySpan> spans = {{nullptr, 4095, 1, 0}};
  Plan plan;
  plan.build(spans, 3, 3, 64, 2, 1 << 20);
  CHECK(plan.items.size() == 24);
  plan.build(spans, 3, 3, 64, 1, 1 << 20);
  CHECK(plan.items.size() == 3);
}

TEST_CASE("No spans, no work") {
  Plan plan;
  plan.build({}, 3, 3, 64, 2, 1 << 20);
  CHECK(plan.items.empty());
}

}  // namespace
}  // namespace lynx::attention
