#include "kv/block_pool.h"

#include <cassert>

namespace lynx::kv {

BlockPool::BlockPool(int blocks) : references_(static_cast<std::size_t>(blocks), 0) {
  free_.reserve(references_.size());
  for (BlockId id = blocks - 1; id >= 0; --id) free_.push_back(id);  // The lowest is handed out first.
}

std::optional<BlockId> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId id = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(id)] = 1;
  return id;
}

void BlockPool::add_reference(BlockId id) {
  assert(references(id) > 0);
  ++references_[static_cast<std::size_t>(id)];
}

void BlockPool::release(BlockId id) {
  assert(references(id) > 0);
  if (--references_[static_cast<std::size_t>(id)] == 0) free_.push_back(id);
}

}  // namespace lynx::kv
