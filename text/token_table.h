#pragma once

// The two look-ups that BPE lives on, as open-addressing hash tables.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lynx::text {

/// The bytes of every token, in one array, and the way back from bytes to id.
class TokenTable {
 public:
  explicit TokenTable(std::size_t tokens);

  /// Appends the bytes of the next id.
  void append(std::string_view bytes);
  /// Makes find(bytes_of(id)) give `id`, also if another id had it before.
  void index(std::int32_t id);

  std::int32_t size() const { return static_cast<std::int32_t>(offsets_.size()) - 1; }
  std::string_view bytes_of(std::int32_t id) const {
    const std::size_t begin = offsets_[static_cast<std::size_t>(id)];
    return std::string_view(bytes_).substr(begin, offsets_[static_cast<std::size_t>(id) + 1] - begin);
  }
  /// −1 = no indexed token has these bytes.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;  ///< −1 = free
  };

  std::string bytes_;
  std::vector<std::size_t> offsets_{0};
  std::vector<Slot> slots_;  ///< A power of two, at most half full.
};

/// (left id, right id) → rank and id of the merged token.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = kNone;  ///< kNone = the pair does not merge.
    std::int32_t id = -1;
  };
  static constexpr std::uint32_t kNone = 0xffffffffu;

  explicit MergeTable(std::size_t merges);

  /// A pair that is there already gets the new value.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = ~std::uint64_t{0};  ///< All ones = free
    Merge merge;
  };

  std::vector<Slot> slots_;  ///< A power of two, at most half full.
};

}  // namespace lynx::text
