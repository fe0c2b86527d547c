#include "quant/exponent_code.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace lynx::quant {
namespace {

// Nibbles of the code table: 0 … 8 is the length of the next exponent's word, 8 + r a run of 8·r exponents that do not occur.
constexpr int kRunUnit = 8;
constexpr int kMostRunUnits = 7;

struct Leaf {
  std::uint64_t weight;
  int exponent;
};

/// The exponents that occur, rarest first. A code needs two words: an exponent that is alone gets a partner that never occurs.
int collect_leaves(const std::uint32_t (&counts)[kExponents], Leaf (&leaves)[kExponents]) {
  int count = 0;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    if (counts[exponent] != 0) leaves[count++] = {counts[exponent], exponent};
  }
  assert(count > 0);
  if (count == 1) leaves[count++] = {0, leaves[0].exponent ^ 1};
  std::sort(leaves, leaves + count,
            [](const Leaf& a, const Leaf& b) { return a.weight != b.weight ? a.weight < b.weight : a.exponent < b.exponent; });
  return count;
}

/// Package-merge (Larmore and Hirschberg, 1990): a level's items are the leaves, and pairs of the level before, by weight. Of the
/// last level the 2n − 2 lightest are taken, and what they are made of; a word's length is how often its leaf was taken. Leaves
/// being sorted, those taken of a level are its first ones, so a level needs to remember only which of its items are leaves.
CodeLengths limited_lengths(const Leaf* leaves, int count) {
  bool is_leaf[kLongestCode][2 * kExponents];
  std::uint64_t lists[2][2 * kExponents];
  int previous_items = 0;
  for (int level = 0; level < kLongestCode; ++level) {
    const std::uint64_t* previous = lists[level % 2];
    std::uint64_t* items = lists[(level + 1) % 2];
    const int pairs = previous_items / 2;
    int leaf = 0;
    int pair = 0;
    for (int i = 0; i < count + pairs; ++i) {
      const std::uint64_t weight = pair < pairs ? previous[2 * pair] + previous[2 * pair + 1] : 0;
      is_leaf[level][i] = pair == pairs || (leaf < count && leaves[leaf].weight <= weight);
      items[i] = is_leaf[level][i] ? leaves[leaf++].weight : weight;
      pair += is_leaf[level][i] ? 0 : 1;
    }
    previous_items = count + pairs;
  }
  CodeLengths lengths{};
  int taken = 2 * count - 2;
  for (int level = kLongestCode - 1; level >= 0; --level) {
    int leaf = 0;
    for (int i = 0; i < taken; ++i) {
      if (is_leaf[level][i]) ++lengths.of[leaves[leaf++].exponent];
    }
    taken = 2 * (taken - leaf);
  }
  return lengths;
}

void count_lengths(const CodeLengths& lengths, int (&count)[kLongestCode + 1]) {
  for (const std::uint8_t length : lengths.of) ++count[length];
}

}  // namespace

ExponentCode make_code(const std::uint32_t (&counts)[kExponents]) {
  Leaf leaves[kExponents];
  ExponentCode code{};
  code.lengths = limited_lengths(leaves, collect_leaves(counts, leaves));
  int count[kLongestCode + 1] = {};
  count_lengths(code.lengths, count);
  int next[kLongestCode + 1] = {};
  for (int length = 2; length <= kLongestCode; ++length) next[length] = 2 * (next[length - 1] + count[length - 1]);
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int length = code.lengths.of[exponent];
    if (length != 0) code.words[exponent] = static_cast<std::uint8_t>(next[length]++);
  }
  return code;
}

std::size_t write_lengths(const CodeLengths& lengths, std::byte* out) {
  std::size_t nibbles = 0;
  const auto put = [&](int nibble) {
    if (nibbles % 2 == 0) out[nibbles / 2] = std::byte{0};
    out[nibbles / 2] |= static_cast<std::byte>(nibble << (nibbles % 2 * 4));
    ++nibbles;
  };
  for (int exponent = 0; exponent < kExponents;) {
    int run = 0;
    while (exponent + run < kExponents && lengths.of[exponent + run] == 0) ++run;
    const int units = std::min(run / kRunUnit, kMostRunUnits);
    put(units > 0 ? 8 + units : lengths.of[exponent]);
    exponent += units > 0 ? units * kRunUnit : 1;
  }
  return (nibbles + 1) / 2;
}

std::size_t read_lengths(const std::byte* table, std::size_t bytes, CodeLengths* lengths) {
  *lengths = {};
  std::size_t nibbles = 0;
  int exponent = 0;
  while (exponent < kExponents) {
    if (nibbles / 2 >= bytes) return 0;
    const int nibble = (std::to_integer<int>(table[nibbles / 2]) >> (nibbles % 2 * 4)) & 15;
    ++nibbles;
    if (nibble <= kLongestCode) lengths->of[exponent] = static_cast<std::uint8_t>(nibble);
    exponent += nibble <= kLongestCode ? 1 : (nibble - 8) * kRunUnit;
  }
  if (exponent != kExponents) return 0;
  if (nibbles % 2 != 0 && std::to_integer<int>(table[nibbles / 2]) >> 4 != 0) return 0;
  return (nibbles + 1) / 2;
}

bool make_table(const CodeLengths& lengths, ExponentTable* table) {
  int count[kLongestCode + 1] = {};
  count_lengths(lengths, count);
  int next[kLongestCode + 1] = {};  // Where the words of a length go on in the table: shorter words come first.
  int filled = 0;
  for (int length = 1; length <= kLongestCode; ++length) {
    next[length] = filled;
    filled += count[length] << (kLongestCode - length);
  }
  if (filled != 256) return false;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int length = lengths.of[exponent];
    if (length == 0) continue;
    const int first = next[length];
    const int entries = 1 << (kLongestCode - length);
    next[length] += entries;
    std::memset(table->exponents + first, exponent, static_cast<std::size_t>(entries));
    std::memset(table->lengths + first / 2, length, static_cast<std::size_t>((entries + 1) / 2));
  }
  return true;
}

}  // namespace lynx::quant
