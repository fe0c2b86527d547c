#pragma once

// How a call's work is cut for the threads. No cut changes a bit of the result.

#include <cstddef>
#include <span>
#include <vector>

#include "attention/attention.h"

namespace lynx::attention {

/// Consecutive query lines (row · group + head in group) of one span and one KV head: they share each pass over K and V.
struct Tile {
  int span;
  int kv_head;
  int first_line;
  int lines;
  int chunks;            ///< Softmax chunks that the last line sees.
  std::ptrdiff_t state;  ///< Where the partial states of a split tile begin, in floats; -1: one item walks all chunks.
};

/// Floats of one partial state (attention/tile.h): a multiple of 16.
constexpr int state_size(int lines, int dim) {
  return (lines + 15) / 16 * 16 * (dim + 2);
}

inline constexpr int kAllChunks = -1;

struct Item {
  int tile;
  int chunk;  ///< Or kAllChunks.
};

/// Reused from call to call: its vectors keep their capacity.
struct Plan {
  std::vector<Tile> tiles;
  std::vector<Item> items;
  std::vector<int> split_tiles;     ///< Those whose chunks are separate items, to be merged afterwards.
  std::ptrdiff_t state_values = 0;  ///< Floats that all partial states take.

  int threads = 1;  ///< Worth using; 1 for a call so short that waking others would take longer.

  /// A tile is split into its chunks when it is so large a part of all work that threads would wait for it, as long as the
  /// partial states take no more than `max_state_values` floats.
  void build(std::span<const QuerySpan> spans, int kv_heads, int group, int dim, int pool_threads, std::ptrdiff_t max_state_values);
};

}  // namespace lynx::attention
