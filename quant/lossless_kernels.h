#pragma once

// What one ISA path does of the lossless plane: everything that runs once a value. Each path lies in a translation unit of its own.
//
// Values are coded in rounds of 64: value i of a round is the lane i % 32's, its first (i < 32) or second. A lane is a bit stream;
// all lanes take their 16-bit words from one sequence, in the order in which a decoder needs them (docs/plane_format.md).

#include <cstddef>
#include <cstdint>

#include "device/bf16_math.h"
#include "device/isa.h"
#include "quant/exponent_code.h"

namespace lynx::quant {

inline constexpr int kLanes = 32;
inline constexpr int kLaneValues = 2;  ///< Of a round.
inline constexpr std::size_t kRoundValues = std::size_t{kLanes} * kLaneValues;
inline constexpr unsigned kWordBits = 16;  ///< At least the bits of a lane's values of a round: one word more is always enough.
static_assert(kWordBits >= kLaneValues * kLongestCode);
inline constexpr std::size_t kWordBytes = kWordBits / 8;

struct LosslessKernels {
  /// How many bits each lane's code words have in all, modulo 256.
  void (*count_lane_bits)(const Bf16* values, std::size_t rounds, const CodeLengths& lengths, std::uint8_t (&bits)[kLanes]);

  /// Writes the words downwards from `words_end`, and the signs and mantissas to `plane` [rounds · 64]. `padding` are the zero bits
  /// after each lane's last code word. May touch the two bytes before the first word.
  void (*encode)(const Bf16* values, std::size_t rounds, const ExponentCode& code, const std::uint8_t (&padding)[kLanes],
                 std::byte* words_end, std::byte* plane);

  /// False if the words end early, are not used up, or leave a lane with padding that is not 0. At least the 64 bytes from
  /// words_end on can be read (of the plane, which follows): one round never takes more, so the end is looked at once a round.
  bool (*decode)(const ExponentTable& table, const std::byte* words, const std::byte* words_end, const std::byte* plane,
                 std::size_t rounds, Bf16* values);
};
static_assert(kLanes * kWordBytes <= kRoundValues);

const LosslessKernels& portable_lossless_kernels();
const LosslessKernels& avx2_lossless_kernels();
const LosslessKernels& avx512_lossless_kernels();

/// The path's table. Only for isa_supported(isa).
const LosslessKernels& lossless_kernels_for(Isa isa);

}  // namespace lynx::quant
