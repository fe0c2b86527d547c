#include "text/token_table.h"

#include <bit>
#include <cstring>

namespace lynx::text {
namespace {

constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;

std::uint64_t mix(std::uint64_t value) {
  value *= kMultiplier;
  return value ^ (value >> 32);
}

template <class Word>
std::uint64_t load(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Reads whole words that overlap at the end, so that no byte loop is needed.
std::uint64_t hash_bytes(std::string_view bytes) {
  const char* data = bytes.data();
  const std::size_t size = bytes.size();
  std::uint64_t hash = mix(size + 1);
  if (size >= 8) {
    for (std::size_t i = 0; i + 8 < size; i += 8) hash = mix(hash ^ load<std::uint64_t>(data + i));
    return mix(hash ^ load<std::uint64_t>(data + size - 8));
  }
  if (size >= 4) return mix(hash ^ (load<std::uint32_t>(data) | (load<std::uint32_t>(data + size - 4) << 32)));
  if (size >= 2) return mix(hash ^ (load<std::uint16_t>(data) | (load<std::uint16_t>(data + size - 2) << 16)));
  if (size == 1) return mix(hash ^ load<std::uint8_t>(data));
  return hash;
}

std::size_t slots_for(std::size_t entries) {
  return std::bit_ceil(2 * entries + 2);
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

TokenTable::TokenTable(std::size_t tokens) : slots_(slots_for(tokens)) {
  offsets_.reserve(tokens + 1);
}

void TokenTable::append(std::string_view bytes) {
  bytes_.append(bytes);
  offsets_.push_back(bytes_.size());
}

void TokenTable::index(std::int32_t id) {
  const std::string_view bytes = bytes_of(id);
  const std::uint64_t hash = hash_bytes(bytes);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id < 0 || bytes_of(slot.id) == bytes) {
      slot = {static_cast<std::uint32_t>(hash >> 16), id};
      return;
    }
  }
}

std::int32_t TokenTable::find(std::string_view bytes) const {
  const std::uint64_t hash = hash_bytes(bytes);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return -1;
    if (slot.hash == static_cast<std::uint32_t>(hash >> 16) && bytes_of(slot.id) == bytes) return slot.id;
  }
}

MergeTable::MergeTable(std::size_t merges) : slots_(slots_for(merges)) {}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t pair = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = mix(pair) & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.pair == ~std::uint64_t{0} || slot.pair == pair) {
      slot = {pair, merge};
      return;
    }
  }
}

MergeTable::Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = mix(pair) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.pair == pair) return slot.merge;
    if (slot.pair == ~std::uint64_t{0}) return {};
  }
}

}  // namespace lynx::text
