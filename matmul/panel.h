#pragma once

// The memory layout of packed weights: written by pack.cpp, read by the kernels of every ISA path.
//
// W[N][K] is cut into panels of 16 rows (the last one padded with zeros), a panel into 4 strips of 4 rows, and K into chunks of 32
// values (= one quantization group; the last one padded with zeros). A row's 32 values of a chunk always lie side by side, so that
// they fill one vector register whose lanes are 16 independent chains of the dot product.

#include <cstddef>
#include <cstdint>

#include "device/bf16_math.h"

namespace lynx::matmul {

inline constexpr int kPanelRows = 16;
inline constexpr int kStripRows = 4;
inline constexpr int kChunk = 32;

/// How a panel is stored.
enum class Format : std::uint8_t {
  kBf16,     ///< In one of the orders of Bf16Order.
  kInt4F16,  ///< Per chunk: 16 scales, 16 minima, then per strip 32 words; nibble j of word k is the code of row j at k.
  kInt4F32,  ///< The same with FP32 scales and minima, for those that half precision cannot hold exactly.
  kInt8F16,  ///< Per chunk: 16 scales, then 16 rows of 32 signed codes.
  kInt8F32,
};

/// Order of a BF16 panel's 4×32 blocks. Strips: [4 strips][chunks][4][32], each strip one stream. Tiles: [chunks][16][32], each
/// chunk one AMX tile.
enum class Bf16Order : std::uint8_t { kStrips, kTiles };

/// Distances in a BF16 panel, in elements.
struct Bf16Strides {
  std::size_t strip;
  std::size_t chunk;
};

constexpr Bf16Strides bf16_strides(Bf16Order order, int chunks) {
  constexpr std::size_t kBlock = kStripRows * kChunk;
  if (order == Bf16Order::kTiles) return {kBlock, kBlock * (kPanelRows / kStripRows)};
  return {kBlock * static_cast<std::size_t>(chunks), kBlock};
}

constexpr int chunk_count(int cols) {
  return cols / kChunk + (cols % kChunk != 0);
}

constexpr bool is_int4(Format format) {
  return format == Format::kInt4F16 || format == Format::kInt4F32;
}

constexpr bool has_f32_scales(Format format) {
  return format == Format::kInt4F32 || format == Format::kInt8F32;
}

/// Bytes of the scales (and minima) at the start of a chunk; 0 for BF16.
constexpr std::size_t scale_bytes(Format format) {
  if (format == Format::kBf16) return 0;
  const std::size_t values = is_int4(format) ? 2 * kPanelRows : kPanelRows;
  return values * (has_f32_scales(format) ? 4 : 2);
}

/// Bytes of one chunk of one panel.
constexpr std::size_t chunk_bytes(Format format) {
  constexpr std::size_t kValues = kPanelRows * kChunk;
  if (format == Format::kBf16) return 2 * kValues;
  return scale_bytes(format) + (is_int4(format) ? kValues / 2 : kValues);
}

/// One panel; a view.
struct Panel {
  Format format;
  Bf16Order order;  ///< Of a BF16 panel.
  const std::byte* data;
  int chunks;
  int columns;  ///< Rows of W that are real, 1 … 16: the columns of Y to write.
};

}  // namespace lynx::matmul
