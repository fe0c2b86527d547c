#include "quant/lossless_scalar_encoder.h"

namespace lynx::quant {
namespace {

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

const LosslessKernels& portable_lossless_kernels() {
  static constexpr LosslessKernels kKernels{count_lane_bits, encode, decode};
  return kKernels;
}

}  // namespace lynx::quant
