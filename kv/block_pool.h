#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lynx::kv {

/// Tokens in one block: allocation unit, quantization group along tokens, attention tile and unit of transfer.
inline constexpr int kBlockTokens = 64;

using BlockId = std::int32_t;

/// Blocks that hold `tokens` tokens.
constexpr int blocks_for(int tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

/// Reference-counted block ids. Accounting only: the bytes are KvCache's. Not thread-safe: the engine thread's.
class BlockPool {
 public:
  explicit BlockPool(int blocks);

  int capacity() const { return static_cast<int>(references_.size()); }
  int free_count() const { return static_cast<int>(free_.size()); }

  std::optional<BlockId> allocate();  ///< One reference; nullopt when none is free.
  void add_reference(BlockId id);
  void release(BlockId id);  ///< The last reference frees the block.
  int references(BlockId id) const { return references_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<int> references_;
  std::vector<BlockId> free_;
};

}  // namespace lynx::kv
