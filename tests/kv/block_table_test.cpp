#include "kv/block_table.h"

#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace lynx::kv {
namespace {

TEST_CASE("A pool hands out every block once and takes them back") {
  BlockPool pool(3);
  CHECK(pool.capacity() == 3);
  std::vector<BlockId> ids;
  while (const std::optional<BlockId> id = pool.allocate()) ids.push_back(*id);
  CHECK(ids == std::vector<BlockId>{0, 1, 2});
  CHECK(pool.free_count() == 0);
  pool.add_reference(1);
  pool.release(1);
  CHECK(pool.free_count() == 0);
  pool.release(1);
  CHECK(pool.free_count() == 1);
  CHECK(pool.allocate() == BlockId{1});
}

TEST_CASE("reserve() gives all or nothing") {
  BlockPool pool(4);
  BlockTable table(&pool);
  REQUIRE(table.reserve(65));
  CHECK(table.blocks().size() == 2);
  CHECK_FALSE(table.reserve(4 * kBlockTokens + 1));
  CHECK(table.blocks().size() == 2);
  CHECK(pool.free_count() == 2);
  CHECK(table.reserve(4 * kBlockTokens));
  CHECK(table.reserve(1));
  CHECK(table.blocks().size() == 4);
}

TEST_CASE("The tail of a fork is copied before a write, and only while it is shared") {
  BlockPool pool(4);
  BlockTable first(&pool);
  REQUIRE(first.reserve(100));
  BlockTable second = first.fork(100);
  CHECK(pool.free_count() == 2);
  std::optional<BlockCopy> copied;
  REQUIRE(second.make_writable(100, &copied));
  REQUIRE(copied.has_value());
  CHECK(copied->from == first.blocks()[1]);
  CHECK(copied->to == second.blocks()[1]);
  CHECK(second.blocks()[0] == first.blocks()[0]);
  REQUIRE(first.make_writable(100, &copied));
  CHECK_FALSE(copied.has_value());
}

TEST_CASE("make_writable() without a free block changes nothing") {
  BlockPool pool(1);
  BlockTable first(&pool);
  REQUIRE(first.reserve(1));
  BlockTable second = first.fork(1);
  std::optional<BlockCopy> copied;
  CHECK_FALSE(second.make_writable(0, &copied));
  CHECK_FALSE(copied.has_value());
  CHECK(second.blocks() == first.blocks());
  CHECK(pool.references(0) == 2);
}

TEST_CASE("A moved table gives its blocks back once") {
  BlockPool pool(4);
  {
    BlockTable first(&pool);
    REQUIRE(first.reserve(128));
    BlockTable second(std::move(first));
    CHECK(second.blocks().size() == 2);
    BlockTable third(&pool);
    REQUIRE(third.reserve(64));
    third = std::move(second);
    CHECK(third.blocks().size() == 2);
    CHECK(pool.free_count() == 2);
  }
  CHECK(pool.free_count() == 4);
}

/// Tables in the naive way: what each position holds, and which write made it. A block's bytes are a vector of 64 stamps.
class Model {
 public:
  explicit Model(int blocks) : pool_(blocks), bytes_(static_cast<std::size_t>(blocks), std::vector<int>(kBlockTokens, -1)) {}

  struct Sequence {
    BlockTable table;
    std::vector<int> expected;  ///< Stamp of every position.
  };

  void step(std::mt19937& random) {
    const int action = static_cast<int>(random() % 6);
    if (sequences_.empty() || (action == 0 && sequences_.size() < 8)) {
      sequences_.push_back({BlockTable(&pool_), {}});
      return;
    }
    const std::size_t chosen = random() % sequences_.size();
    Sequence& sequence = sequences_[chosen];
    const int length = static_cast<int>(sequence.expected.size());
    if (action <= 2) return append(sequence, 1 + static_cast<int>(random() % 150));
    if (action == 3) {
      const int kept = static_cast<int>(random() % static_cast<unsigned>(length + 1));
      sequence.table.truncate(kept);
      sequence.expected.resize(static_cast<std::size_t>(kept));
    } else if (action == 4 && sequences_.size() < 8) {
      const int shared = static_cast<int>(random() % static_cast<unsigned>(length + 1));
      std::vector<int> expected(sequence.expected.begin(), sequence.expected.begin() + shared);
      sequences_.push_back({sequence.table.fork(shared), std::move(expected)});
    } else if (action == 5) {
      sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }

  /// Every position reads as written; reference counts are those of the tables.
  void check() const {
    std::map<BlockId, int> references;
    for (const Sequence& sequence : sequences_) {
      for (std::size_t i = 0; i < sequence.expected.size(); ++i) {
        const BlockId block = sequence.table.blocks()[i / kBlockTokens];
        REQUIRE(bytes_[static_cast<std::size_t>(block)][i % kBlockTokens] == sequence.expected[i]);
      }
      for (const BlockId id : sequence.table.blocks()) ++references[id];
    }
    for (const auto& [id, count] : references) REQUIRE(pool_.references(id) == count);
    REQUIRE(pool_.free_count() == pool_.capacity() - static_cast<int>(references.size()));
  }

  void clear() { sequences_.clear(); }
  const BlockPool& pool() const { return pool_; }

 private:
  void append(Sequence& sequence, int tokens) {
    const int length = static_cast<int>(sequence.expected.size());
    const int free_before = pool_.free_count();
    const int missing = blocks_for(length + tokens) - static_cast<int>(sequence.table.blocks().size());
    if (!sequence.table.reserve(length + tokens)) {
      REQUIRE(missing > free_before);
      REQUIRE(pool_.free_count() == free_before);
      return;
    }
    for (int position = length; position < length + tokens; ++position) {
      std::optional<BlockCopy> copied;
      if (!sequence.table.make_writable(position, &copied)) {
        REQUIRE(pool_.free_count() == 0);
        return;
      }
      if (copied) bytes_[static_cast<std::size_t>(copied->to)] = bytes_[static_cast<std::size_t>(copied->from)];
      const BlockId block = sequence.table.blocks()[static_cast<std::size_t>(position / kBlockTokens)];
      bytes_[static_cast<std::size_t>(block)][static_cast<std::size_t>(position % kBlockTokens)] = ++stamp_;
      sequence.expected.push_back(stamp_);
    }
  }

  BlockPool pool_;
  std::vector<std::vector<int>> bytes_;
  std::vector<Sequence> sequences_;
  int stamp_ = 0;
};

TEST_CASE("Random reserve, write, fork, truncate and drop keep every sequence's bytes and leak no block") {
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Model model(24);
    for (int i = 0; i < 2000; ++i) {
      model.step(random);
      model.check();
    }
    model.clear();
    REQUIRE(model.pool().free_count() == model.pool().capacity());
  }
}

}  // namespace
}  // namespace lynx::kv
