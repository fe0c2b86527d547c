#pragma once

// The block formats that model files store weights in: bytes in, values out. Format facts: GGUF specification and ggml's block
// structs.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lynx::quant {

/// Element type of a weight tensor as it lies in a file.
enum class WeightType { kF32, kF16, kBf16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

std::string_view weight_type_name(WeightType type);  ///< "Q4_1", …

/// Values in one block (1, 32 or 256) and its size in bytes.
int block_values(WeightType type);
std::size_t block_bytes(WeightType type);

/// Decodes `values` values (a multiple of block_values(type)) from `source` (unaligned is fine) to FP32. The product of scale and
/// code is exact in FP32 for every type, so there is a single rounding, in the final addition: the result equals ggml's bit for
/// bit.
void dequantize(WeightType type, const std::byte* source, std::size_t values, float* out);

/// Values that share one (scale, minimum) pair in the 4- and 8-bit types that stay packed in memory.
inline constexpr int kAffineGroup = 32;

/// One group of a type that stays packed: value[i] = scale · code[i] + minimum, one rounding (the product is exact). Equal to what
/// dequantize() gives for every finite scale (a zero may differ in its sign, which no sum can show).
/// 4-bit types (Q4_0, Q4_1, Q4_K): code in 0 … 15. Q8_0: code in −128 … 127, minimum 0.
struct AffineGroup {
  float scale;
  float minimum;
  std::int8_t codes[kAffineGroup];
};

/// Bits per code if the type stays packed (4 or 8), else 0.
int affine_bits(WeightType type);

/// Reads group `index` of a row (group g covers columns 32g … 32g+31). Only for types with affine_bits(type) != 0.
void read_affine_group(WeightType type, const std::byte* row, std::size_t index, AffineGroup* group);

}  // namespace lynx::quant
