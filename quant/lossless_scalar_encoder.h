#pragma once

// The lossless plane's encoder in plain loops, compiled once for any processor and once for AVX2: without a way to store part of a
// register, vectors would gain little there. For translation units of one ISA path.

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

}  // namespace
}  // namespace lynx::quant
