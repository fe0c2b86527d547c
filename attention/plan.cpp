#include "attention/plan.h"

#include <algorithm>
#include <cstdint>

#include "attention/chunk_kernel.h"

namespace lynx::attention {
namespace {

/// Keys that the tile's last line sees, times lines: what it costs, near enough.
std::int64_t cost(const Tile& tile, std::span<const QuerySpan> spans, int group) {
  const int last_row = (tile.first_line + tile.lines - 1) / group;
  return std::int64_t{spans[static_cast<std::size_t>(tile.span)].first_position + last_row + 1} * tile.lines;
}

/// Channels times keys times lines below which one thread does a call: some five microseconds of the AVX-512 path.
constexpr std::int64_t kShortWork = 200'000;

}  // namespace

void Plan::build(std::span<const QuerySpan> spans, int kv_heads, int group, int dim, int pool_threads,
                 std::ptrdiff_t max_state_values) {
  tiles.clear();
  items.clear();
  split_tiles.clear();
  state_values = 0;
  std::int64_t total = 0;
  for (int s = 0; s < static_cast<int>(spans.size()); ++s) {
    const QuerySpan& span = spans[static_cast<std::size_t>(s)];
    const int lines = span.rows * group;
    // A KV head's tiles follow each other, so its K and V stay in the cache; the longest first, so the last ones to run are short.
    for (int kv_head = 0; kv_head < kv_heads; ++kv_head) {
      for (int first = (lines - 1) / kTileLines * kTileLines; first >= 0; first -= kTileLines) {
        const int count = std::min(kTileLines, lines - first);
        const int keys = span.first_position + (first + count - 1) / group + 1;
        tiles.push_back({s, kv_head, first, count, (keys + kSoftmaxChunk - 1) / kSoftmaxChunk, -1});
        total += cost(tiles.back(), spans, group);
      }
    }
  }
  threads = total * dim < kShortWork ? 1 : pool_threads;
  constexpr int kSharesPerThread = 8;
  for (int t = 0; t < static_cast<int>(tiles.size()); ++t) {
    Tile& tile = tiles[static_cast<std::size_t>(t)];
    const bool large = cost(tile, spans, group) * threads * kSharesPerThread > total;
    const std::ptrdiff_t needed = std::ptrdiff_t{tile.chunks} * state_size(tile.lines, dim);
    if (threads == 1 || !large || tile.chunks == 1 || state_values + needed > max_state_values) {
      items.push_back({t, kAllChunks});
      continue;
    }
    tile.state = state_values;
    state_values += needed;
    split_tiles.push_back(t);
    for (int chunk = 0; chunk < tile.chunks; ++chunk) items.push_back({t, chunk});
  }
}

}  // namespace lynx::attention
