#pragma once

#include <optional>
#include <vector>

#include "kv/block_pool.h"

namespace lynx::kv {

/// A copy that must be made (KvCache::copy_block) before the next write: copy-on-write of a shared block.
struct BlockCopy {
  BlockId from;
  BlockId to;
};

/// The blocks of one sequence, in token order. It holds references into `pool`, which must outlive it. Movable; copies only by
/// fork().
class BlockTable {
 public:
  explicit BlockTable(BlockPool* pool) : pool_(pool) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable();

  const std::vector<BlockId>& blocks() const { return blocks_; }

  /// Makes room for positions 0 … tokens−1. False, and nothing changed, when the pool has too few free blocks.
  bool reserve(int tokens);

  /// Makes the block of `position` this sequence's own before a write there. `copied` gets the copy that the caller must make, if
  /// any. False, and nothing changed, when a copy is needed and no block is free.
  bool make_writable(int position, std::optional<BlockCopy>* copied);

  /// Drops the blocks wholly beyond the first `tokens` tokens (those of drafts; 0 gives all back).
  void truncate(int tokens);

  /// A table that shares the blocks holding the first `tokens` tokens.
  BlockTable fork(int tokens) const;

 private:
  BlockPool* pool_;
  std::vector<BlockId> blocks_;
};

}  // namespace lynx::kv
