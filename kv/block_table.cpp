#include "kv/block_table.h"

#include <cassert>
#include <utility>

namespace lynx::kv {

BlockTable::BlockTable(BlockTable&& other) noexcept : pool_(other.pool_), blocks_(std::exchange(other.blocks_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(blocks_, other.blocks_);
  other.truncate(0);
  return *this;
}

BlockTable::~BlockTable() {
  truncate(0);
}

bool BlockTable::reserve(int tokens) {
  const int missing = blocks_for(tokens) - static_cast<int>(blocks_.size());
  if (missing > pool_->free_count()) return false;
  for (int i = 0; i < missing; ++i) blocks_.push_back(*pool_->allocate());
  return true;
}

bool BlockTable::make_writable(int position, std::optional<BlockCopy>* copied) {
  copied->reset();
  const auto index = static_cast<std::size_t>(position / kBlockTokens);
  assert(position >= 0 && index < blocks_.size());
  const BlockId shared = blocks_[index];
  if (pool_->references(shared) == 1) return true;
  const std::optional<BlockId> own = pool_->allocate();
  if (!own) return false;
  pool_->release(shared);
  blocks_[index] = *own;
  *copied = BlockCopy{.from = shared, .to = *own};
  return true;
}

void BlockTable::truncate(int tokens) {
  const auto kept = static_cast<std::size_t>(blocks_for(tokens));
  while (blocks_.size() > kept) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

BlockTable BlockTable::fork(int tokens) const {
  const auto shared = static_cast<std::size_t>(blocks_for(tokens));
  assert(shared <= blocks_.size());
  BlockTable copy(pool_);
  copy.blocks_.assign(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(shared));
  for (const BlockId id : copy.blocks_) pool_->add_reference(id);
  return copy;
}

}  // namespace lynx::kv
