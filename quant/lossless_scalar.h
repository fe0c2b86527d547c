#pragma once

// The lossless plane in plain loops, compiled once for any processor and once for AVX2 (whose shifts by a variable are cheap and
// whose compiler vectorizes the planes). For translation units of one ISA path.

#include <cstring>

#include "quant/lossless_kernels.h"

namespace lynx::quant {
namespace {

inline unsigned exponent_of(Bf16 value) {
  return (value >> 7) & 0xffu;
}

void count_lane_bits(const Bf16* values, std::size_t rounds, const CodeLengths& lengths, std::uint8_t (&bits)[kLanes]) {
  for (std::uint8_t& lane : bits) lane = 0;
  for (std::size_t i = 0; i < rounds * kLaneValues; ++i) {
    const Bf16* row = values + i * kLanes;
    for (int lane = 0; lane < kLanes; ++lane)
      bits[lane] = static_cast<std::uint8_t>(bits[lane] + lengths.of[exponent_of(row[lane])]);
  }
}

// Backwards, since a word goes where the decoder takes it, which is before all values that end in it. A lane holds 16 to 31 bits
// after a round; it gives 16 away when the next round's would not fit, which is just when the decoder, coming the other way, takes
// them.
void encode(const Bf16* values, std::size_t rounds, const ExponentCode& code, const std::uint8_t (&padding)[kLanes],
            std::byte* words_end, std::byte* plane) {
  std::uint32_t bits[kLanes] = {};
  std::uint32_t held[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) held[lane] = padding[lane];
  std::byte* words = words_end;
  for (std::size_t round = rounds; round-- > 0;) {
    const Bf16* row = values + round * kRoundValues;
    std::byte* plane_row = plane + round * kRoundValues;
    for (std::size_t i = 0; i < kRoundValues; ++i) plane_row[i] = static_cast<std::byte>((row[i] & 0x7f) | ((row[i] >> 8) & 0x80));
    for (int lane = kLanes; lane-- > 0;) {
      const unsigned first = exponent_of(row[lane]);
      const unsigned second = exponent_of(row[lane + kLanes]);
      const std::uint32_t second_length = code.lengths.of[second];
      const std::uint32_t length = code.lengths.of[first] + second_length;
      const auto word = static_cast<std::uint16_t>(bits[lane]);
      const std::uint32_t full = (held[lane] + length) >> 5;  // 1 if it would not fit; a branch would be mispredicted too often.
      std::memcpy(words - kWordBytes, &word, kWordBytes);
      words -= full * kWordBytes;
      held[lane] -= full * kWordBits;
      const std::uint32_t both = static_cast<std::uint32_t>(code.words[first]) << second_length | code.words[second];
      bits[lane] = (bits[lane] >> (full * kWordBits)) | both << held[lane];
      held[lane] += length;
    }
  }
  for (int lane = kLanes; lane-- > 0;) {
    const auto word = static_cast<std::uint16_t>(bits[lane]);
    words -= kWordBytes;
    std::memcpy(words, &word, kWordBytes);
  }
}

inline void merge_round(const std::uint8_t* exponents, const std::byte* plane, Bf16* values) {
  for (std::size_t i = 0; i < kRoundValues; ++i) {
    const auto sign_mantissa = static_cast<unsigned>(plane[i]);
    values[i] = static_cast<Bf16>((sign_mantissa & 0x80) << 8 | static_cast<unsigned>(exponents[i]) << 7 | (sign_mantissa & 0x7f));
  }
}

bool decode(const ExponentTable& table, const std::byte* words, const std::byte* words_end, const std::byte* plane,
            std::size_t rounds, Bf16* values) {
  std::uint32_t bits[kLanes] = {};  // A lane's next bits are the upper ones.
  std::uint32_t held[kLanes] = {};
  std::uint8_t exponents[kRoundValues];
  for (std::size_t round = 0; round < rounds; ++round) {
    if (words > words_end) return false;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint16_t word = 0;
      std::memcpy(&word, words, kWordBytes);
      const std::uint32_t wanted = held[lane] < kWordBits ? 1 : 0;
      std::uint32_t window = bits[lane] | (word & (0u - wanted)) << ((kWordBits - held[lane]) & 31);
      words += wanted * kWordBytes;
      exponents[lane] = table.exponents[window >> 24];
      const std::uint32_t first_length = table.lengths[window >> 25];
      window <<= first_length;
      exponents[lane + kLanes] = table.exponents[window >> 24];
      const std::uint32_t second_length = table.lengths[window >> 25];
      bits[lane] = window << second_length;
      held[lane] += wanted * kWordBits - first_length - second_length;
    }
    merge_round(exponents, plane + round * kRoundValues, values + round * kRoundValues);
  }
  std::uint32_t left = 0;
  for (const std::uint32_t lane : bits) left |= lane;
  return words == words_end && left == 0;
}

}  // namespace
}  // namespace lynx::quant
