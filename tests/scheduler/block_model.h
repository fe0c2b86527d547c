#pragma once

// The oracle of block counting: block tables with reference counts and copy-on-write, written without regard to the counting rules
// of scheduler/request_blocks.h.

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace lynx::scheduler {

class BlockModel {
 public:
  explicit BlockModel(int block_tokens) : block_tokens_(block_tokens) {}

  using Key = std::pair<std::uint64_t, int>;

  /// Room for `tokens` tokens of which those from `first_written` on are about to be written.
  void write(Key key, int first_written, int tokens) {
    auto& table = tables_[key];
    while (static_cast<int>(table.size()) * block_tokens_ < tokens) table.push_back(std::make_shared<int>(0));
    for (int position = first_written; position < tokens; ++position) {
      auto& block = table[static_cast<std::size_t>(position / block_tokens_)];
      if (block.use_count() > 1) block = std::make_shared<int>(0);
    }
  }

  void truncate(Key key, int tokens) {
    while (blocks(key) * block_tokens_ >= tokens + block_tokens_) tables_.at(key).pop_back();
  }
  int blocks(Key key) const { return static_cast<int>(tables_.at(key).size()); }
  void fork(Key from, Key to) { tables_[to] = tables_[from]; }
  void release(Key key) { tables_.erase(key); }
  bool holds(Key key) const { return tables_.count(key) > 0; }

  int used() const {
    std::map<const int*, int> distinct;
    for (const auto& [key, table] : tables_) {
      for (const auto& block : table) distinct[block.get()] = 1;
    }
    return static_cast<int>(distinct.size());
  }

 private:
  int block_tokens_;
  std::map<Key, std::vector<std::shared_ptr<int>>> tables_;
};

}  // namespace lynx::scheduler
