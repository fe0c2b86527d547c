#include "quant/weight_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "device/bf16_math.h"
#include "quant/f16_math.h"

namespace lynx::quant {
namespace {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and read in place");

struct TypeTraits {
  std::string_view name;
  int values;
  std::size_t bytes;
  int affine_bits;
};

// In the order of WeightType.
constexpr std::array<TypeTraits, 11> kTraits{{{"F32", 1, 4, 0},
                                              {"F16", 1, 2, 0},
                                              {"BF16", 1, 2, 0},
                                              {"Q4_0", 32, 18, 4},
                                              {"Q4_1", 32, 20, 4},
                                              {"Q5_0", 32, 22, 0},
                                              {"Q5_1", 32, 24, 0},
                                              {"Q8_0", 32, 34, 8},
                                              {"Q4_K", 256, 144, 4},
                                              {"Q5_K", 256, 176, 0},
                                              {"Q6_K", 256, 210, 0}}};

const TypeTraits& traits(WeightType type) {
  return kTraits[static_cast<std::size_t>(type)];
}

std::uint8_t byte_at(const std::byte* source, std::size_t index) {
  return std::to_integer<std::uint8_t>(source[index]);
}

float half_at(const std::byte* source, std::size_t offset) {
  F16 half = 0;
  std::memcpy(&half, source + offset, sizeof half);
  return f16_to_float(half);
}

std::uint32_t word_at(const std::byte* source, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, source + offset, sizeof word);
  return word;
}

/// 16 bytes of nibbles: the low ones are values 0 … 15, the high ones 16 … 31.
void split_nibbles(const std::byte* packed, std::int8_t* codes) {
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint8_t pair = byte_at(packed, i);
    codes[i] = static_cast<std::int8_t>(pair & 0x0f);
    codes[i + 16] = static_cast<std::int8_t>(pair >> 4);
  }
}

/// The fifth bits of 32 codes, one a bit.
void add_fifth_bits(std::uint32_t high, std::int8_t* codes) {
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::int8_t>(codes[i] | (((high >> i) & 1u) << 4));
}

/// out = scale · (code − offset)
void scale_codes(const std::int8_t* codes, int offset, float scale, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(codes[i] - offset);
}

/// out = scale · code + minimum
void scale_and_shift_codes(const std::int8_t* codes, float scale, float minimum, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(codes[i]) + minimum;
}

struct SubScale {
  int scale;
  int minimum;
};

/// The 6-bit (scale, minimum) pair of sub-block j in the 12 bytes that Q4_K and Q5_K share: pairs 0 … 3 lie in the low six bits of
/// bytes j and j + 4; pairs 4 … 7 take four bits from byte j + 4 and their two top bits from the top of those bytes.
SubScale sub_scale(const std::byte* packed, std::size_t j) {
  if (j < 4) return {byte_at(packed, j) & 0x3f, byte_at(packed, j + 4) & 0x3f};
  const int low = byte_at(packed, j + 4);
  return {(low & 0x0f) | ((byte_at(packed, j - 4) >> 6) << 4), (low >> 4) | ((byte_at(packed, j) >> 6) << 4)};
}

/// Q4_K keeps 64 values in 32 bytes: sub-block 2p in the low nibbles, 2p + 1 in the high ones.
void k_quant_codes(const std::byte* nibbles, std::size_t sub_block, std::int8_t* codes) {
  const std::byte* packed = nibbles + (sub_block / 2) * 32;
  const unsigned shift = (sub_block % 2) * 4;
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::int8_t>((byte_at(packed, i) >> shift) & 0x0f);
}

void decode_q5(const std::byte* high, const std::byte* low, std::int8_t* codes) {
  split_nibbles(low, codes);
  add_fifth_bits(word_at(high, 0), codes);
}

/// Q4_K: d, dmin, 12 bytes of sub-scales, 128 of nibbles. Q5_K: 32 bytes of fifth bits (bit j for sub-block j) before the nibbles.
void dequantize_k_block(const std::byte* block, bool five_bits, float* out) {
  const float d = half_at(block, 0);
  const float dmin = half_at(block, 2);
  const std::byte* high = block + 16;
  const std::byte* nibbles = five_bits ? high + 32 : high;
  for (std::size_t j = 0; j < 8; ++j) {
    std::int8_t codes[32];
    k_quant_codes(nibbles, j, codes);
    if (five_bits) {
      for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<std::int8_t>(codes[i] | (((byte_at(high, i) >> j) & 1) << 4));
    }
    const SubScale sub = sub_scale(block + 4, j);
    scale_and_shift_codes(codes, d * static_cast<float>(sub.scale), -(dmin * static_cast<float>(sub.minimum)), out + 32 * j);
  }
}

/// 128 bytes of low nibbles, 64 of high bit pairs, 16 signed sub-scales, d. Values come in halves of 128, each four runs of 32:
/// runs 0 and 1 in the low nibbles of two 32-byte stripes, runs 2 and 3 in the high ones; the run's number picks the bit pair.
void dequantize_q6_k_block(const std::byte* block, float* out) {
  const float d = half_at(block, 208);
  for (std::size_t run = 0; run < 8; ++run) {
    const std::size_t half = run / 4;
    const std::size_t quarter = run % 4;
    const std::byte* low = block + 64 * half + 32 * (quarter % 2);
    const std::byte* high = block + 128 + 32 * half;
    for (std::size_t sub = 0; sub < 2; ++sub) {
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(byte_at(block, 192 + 2 * run + sub)));
      for (std::size_t i = 16 * sub; i < 16 * sub + 16; ++i) {
        const int nibble = (byte_at(low, i) >> (4 * (quarter / 2))) & 0x0f;
        const int pair = (byte_at(high, i) >> (2 * quarter)) & 0x03;
        out[32 * run + i] = scale * static_cast<float>((nibble | (pair << 4)) - 32);
      }
    }
  }
}

void dequantize_block(WeightType type, const std::byte* block, float* out) {
  std::int8_t codes[32];
  switch (type) {
    case WeightType::kQ4_0: split_nibbles(block + 2, codes); return scale_codes(codes, 8, half_at(block, 0), out);
    case WeightType::kQ4_1:
      split_nibbles(block + 4, codes);
      return scale_and_shift_codes(codes, half_at(block, 0), half_at(block, 2), out);
    case WeightType::kQ5_0: decode_q5(block + 2, block + 6, codes); return scale_codes(codes, 16, half_at(block, 0), out);
    case WeightType::kQ5_1:
      decode_q5(block + 4, block + 8, codes);
      return scale_and_shift_codes(codes, half_at(block, 0), half_at(block, 2), out);
    case WeightType::kQ8_0: std::memcpy(codes, block + 2, 32); return scale_codes(codes, 0, half_at(block, 0), out);
    case WeightType::kQ4_K: return dequantize_k_block(block, false, out);
    case WeightType::kQ5_K: return dequantize_k_block(block, true, out);
    case WeightType::kQ6_K: return dequantize_q6_k_block(block, out);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16: break;  // Unblocked; dequantize() takes them as a whole.
  }
}

void widen_f16(const std::byte* source, std::size_t values, float* out) {
  for (std::size_t i = 0; i < values; ++i) out[i] = half_at(source, 2 * i);
}

void widen_bf16(const std::byte* source, std::size_t values, float* out) {
  for (std::size_t i = 0; i < values; ++i) {
    Bf16 value = 0;
    std::memcpy(&value, source + 2 * i, sizeof value);
    out[i] = bf16_to_float(value);
  }
}

}  // namespace

std::string_view weight_type_name(WeightType type) {
  return traits(type).name;
}

int block_values(WeightType type) {
  return traits(type).values;
}

std::size_t block_bytes(WeightType type) {
  return traits(type).bytes;
}

int affine_bits(WeightType type) {
  return traits(type).affine_bits;
}

void dequantize(WeightType type, const std::byte* source, std::size_t values, float* out) {
  if (values == 0) return;
  if (type == WeightType::kF32) {
    std::memcpy(out, source, values * sizeof(float));
    return;
  }
  if (type == WeightType::kF16) return widen_f16(source, values, out);
  if (type == WeightType::kBf16) return widen_bf16(source, values, out);
  const auto step = static_cast<std::size_t>(block_values(type));
  assert(values % step == 0);
  for (std::size_t at = 0; at < values; at += step, source += block_bytes(type)) dequantize_block(type, source, out + at);
}

void read_affine_group(WeightType type, const std::byte* row, std::size_t index, AffineGroup* group) {
  if (type == WeightType::kQ4_K) {
    const std::byte* block = row + (index / 8) * block_bytes(type);
    const SubScale sub = sub_scale(block + 4, index % 8);
    group->scale = half_at(block, 0) * static_cast<float>(sub.scale);
    group->minimum = -(half_at(block, 2) * static_cast<float>(sub.minimum));
    k_quant_codes(block + 16, index % 8, group->codes);
    return;
  }
  const std::byte* block = row + index * block_bytes(type);
  group->scale = half_at(block, 0);
  if (type == WeightType::kQ8_0) {
    group->minimum = 0.0F;
    std::memcpy(group->codes, block + 2, kAffineGroup);
    return;
  }
  assert(affine_bits(type) == 4);
  const bool has_minimum = type == WeightType::kQ4_1;
  group->minimum = has_minimum ? half_at(block, 2) : -8.0F * group->scale;
  split_nibbles(block + (has_minimum ? 4 : 2), group->codes);
}

}  // namespace lynx::quant
