#include "tests/quant/lossless_reference.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>

namespace lynx::quant {
namespace {

using Words = std::map<std::string, unsigned>;  ///< Code word, as text of 0 and 1, to exponent.

std::optional<std::vector<int>> read_table(std::span<const std::byte> coded, std::size_t* bytes) {
  std::vector<int> lengths;
  std::size_t nibble = 0;
  for (; lengths.size() < 256; ++nibble) {
    if (nibble / 2 >= coded.size()) return std::nullopt;
    const int byte = std::to_integer<int>(coded[nibble / 2]);
    const int value = nibble % 2 == 0 ? byte % 16 : byte / 16;
    lengths.insert(lengths.end(), static_cast<std::size_t>(value <= 8 ? 1 : 8 * (value - 8)), value <= 8 ? value : 0);
  }
  if (lengths.size() > 256) return std::nullopt;
  if (nibble % 2 == 1 && std::to_integer<int>(coded[nibble / 2]) / 16 != 0) return std::nullopt;
  *bytes = (nibble + 1) / 2;
  return lengths;
}

std::string to_text(unsigned value, int bits) {
  std::string text;
  for (int bit = bits - 1; bit >= 0; --bit) text += (value >> bit & 1) != 0 ? '1' : '0';
  return text;
}

/// Canonical: words ascend, by length, then by exponent.
std::optional<Words> make_words(const std::vector<int>& lengths) {
  Words words;
  unsigned next = 0;  // Of 256ths.
  for (int length = 1; length <= 8; ++length) {
    for (unsigned exponent = 0; exponent < 256; ++exponent) {
      if (lengths[exponent] != length) continue;
      if (next >= 256) return std::nullopt;
      words[to_text(next >> (8 - length), length)] = exponent;
      next += 256U >> length;
    }
  }
  return next == 256 ? std::optional(words) : std::nullopt;
}

unsigned take_exponent(const Words& words, std::deque<char>* lane) {
  std::string text;
  while (words.count(text) == 0) {
    text += lane->front();
    lane->pop_front();
  }
  return words.at(text);
}

}  // namespace

std::optional<std::vector<Bf16>> reference_decode(std::span<const std::byte> coded, std::size_t count) {
  if (count < 64) return std::nullopt;
  std::size_t at = 0;
  const auto lengths = read_table(coded, &at);
  if (!lengths) return std::nullopt;
  const auto words = make_words(*lengths);
  const std::size_t in_rounds = count / 64 * 64;
  const std::size_t after_words = in_rounds + 2 * (count - in_rounds);
  if (!words || coded.size() < at + after_words || (coded.size() - at - after_words) % 2 != 0) return std::nullopt;

  const std::size_t plane = coded.size() - after_words;
  std::vector<std::deque<char>> lanes(32);
  std::vector<Bf16> values;
  for (std::size_t round = 0; round < in_rounds / 64; ++round) {
    unsigned exponents[64];
    for (std::size_t lane = 0; lane < 32; ++lane) {
      if (lanes[lane].size() < 16) {
        if (at + 2 > plane) return std::nullopt;
        const std::string word = to_text(std::to_integer<unsigned>(coded[at]) + 256 * std::to_integer<unsigned>(coded[at + 1]), 16);
        lanes[lane].insert(lanes[lane].end(), word.begin(), word.end());
        at += 2;
      }
      exponents[lane] = take_exponent(*words, &lanes[lane]);
      exponents[lane + 32] = take_exponent(*words, &lanes[lane]);
    }
    for (std::size_t i = 0; i < 64; ++i) {
      const auto byte = std::to_integer<unsigned>(coded[plane + round * 64 + i]);
      values.push_back(static_cast<Bf16>(byte / 128 * 32768 + exponents[i] * 128 + byte % 128));
    }
  }
  for (const auto& lane : lanes) {
    if (std::count(lane.begin(), lane.end(), '1') != 0) return std::nullopt;
  }
  if (at != plane) return std::nullopt;
  for (std::size_t i = plane + in_rounds; i < coded.size(); i += 2) {
    values.push_back(static_cast<Bf16>(std::to_integer<unsigned>(coded[i]) + 256 * std::to_integer<unsigned>(coded[i + 1])));
  }
  return values;
}

}  // namespace lynx::quant
