#pragma once

// The AMX path: W in tiles of 16 rows × 32 k as the left operand, X in tiles of 32 k × 16 rows as the right one, so that the
// product is a tile of Yᵀ: packed weights need no interleaving, and up to 16 rows of X cost what one costs. Templates over the tile
// policy (device/amx_tiles.h). For translation units compiled for AVX512-BF16.

#include <immintrin.h>

#include "device/amx_tiles.h"
#include "matmul/kernels.h"
#include "matmul/lane_kernels.h"

namespace lynx::matmul {
namespace {

constexpr std::size_t kTileValues = kTileRows * kTileK;

/// Transposes 16 × 16 words held in 16 registers.
[[gnu::always_inline]] inline void transpose(__m512i (&rows)[16]) {
  __m512i t[16];
  LYNX_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  LYNX_UNROLL
  for (int i = 0; i < 16; i += 4) {  // rows[i + c], 128-bit lane l: column 4l + c of rows i … i+3.
    rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  LYNX_UNROLL
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);  // Lanes 0, 2 of rows 0–3 and of rows 4–7.
    const __m512i low23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    const __m512i high01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);  // Lanes 1, 3.
    const __m512i high23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    t[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
  LYNX_UNROLL
  for (int i = 0; i < 16; ++i) rows[i] = t[i];
}

/// See Kernels::pack_rows.
void pack_row_tiles(const Bf16* x, int rows, std::size_t ldx, int k, Bf16* out) {
  for (int first = 0; first < k; first += kChunk, out += kTileValues) {
    const int values = k - first < kChunk ? k - first : kChunk;
    const __mmask32 mask = static_cast<__mmask32>(~std::uint32_t{0} >> (kChunk - values));
    __m512i tile[16];
    for (int row = 0; row < 16; ++row) {
      tile[row] =
          row < rows ? _mm512_maskz_loadu_epi16(mask, x + static_cast<std::size_t>(row) * ldx + first) : _mm512_setzero_si512();
    }
    transpose(tile);
    for (int pair = 0; pair < 16; ++pair) _mm512_storeu_si512(out + pair * 32, tile[pair]);
  }
}

/// Y[0 … rows−1][0 … columns−1] from the tile of Yᵀ in `tile`.
inline void store_transposed(const float (&tile)[16][16], int rows, int columns, float* y, std::size_t ldy) {
  __m512i words[16];
  for (int n = 0; n < 16; ++n) words[n] = _mm512_load_si512(tile[n]);
  transpose(words);
  const __mmask16 mask = static_cast<__mmask16>(0xffffu >> (16 - columns));
  alignas(64) float out[16][16];
  for (int m = 0; m < 16; ++m) _mm512_store_si512(out[m], words[m]);
  for (int m = 0; m < rows; ++m) _mm512_mask_storeu_ps(y + static_cast<std::size_t>(m) * ldy, mask, _mm512_load_ps(out[m]));
}

/// kTiles tiles of 16 rows of X against the panel. Accumulators are tiles 0 … 3, W is tile 4, X alternates between 5 and 6.
template <class Tiles, int kTiles>
[[gnu::always_inline]] inline void multiply_row_tiles(Tiles& tiles, const PanelTask& task, int row) {
  const std::size_t row_tile_values = static_cast<std::size_t>(task.panel.chunks) * kTileValues;
  const Bf16* x = task.x + static_cast<std::size_t>(row / kRowTile) * row_tile_values;
  const auto* w = reinterpret_cast<const Bf16*>(task.panel.data);
  tiles.template zero<0>();
  if constexpr (kTiles > 1) tiles.template zero<1>();
  if constexpr (kTiles > 2) tiles.template zero<2>();
  if constexpr (kTiles > 3) tiles.template zero<3>();
  for (int chunk = 0; chunk < task.panel.chunks; ++chunk, x += kTileValues, w += kTileValues) {
    tiles.template load<4>(w, kTileRowBytes);
    tiles.template load<5>(x, kTileRowBytes);
    tiles.template dot<0, 4, 5>();
    if constexpr (kTiles > 1) {
      tiles.template load<6>(x + row_tile_values, kTileRowBytes);
      tiles.template dot<1, 4, 6>();
    }
    if constexpr (kTiles > 2) {
      tiles.template load<5>(x + 2 * row_tile_values, kTileRowBytes);
      tiles.template dot<2, 4, 5>();
    }
    if constexpr (kTiles > 3) {
      tiles.template load<6>(x + 3 * row_tile_values, kTileRowBytes);
      tiles.template dot<3, 4, 6>();
    }
  }
  alignas(64) float sums[kTiles][16][16];
  tiles.template store<0>(sums[0], kTileRowBytes);
  if constexpr (kTiles > 1) tiles.template store<1>(sums[1], kTileRowBytes);
  if constexpr (kTiles > 2) tiles.template store<2>(sums[2], kTileRowBytes);
  if constexpr (kTiles > 3) tiles.template store<3>(sums[3], kTileRowBytes);
  for (int t = 0; t < kTiles; ++t) {
    const int first = row + t * kRowTile;
    const int rows = task.rows - first < kRowTile ? task.rows - first : kRowTile;
    store_transposed(sums[t], rows, task.panel.columns, task.y + static_cast<std::size_t>(first) * task.ldy, task.ldy);
  }
}

/// See Kernels::multiply_panel; the panel is BF16 in tiles, task.x row tiles.
template <class Tiles>
void multiply_tile_panel(const PanelTask& task) {
  Tiles tiles;
  int row = 0;
  for (; task.rows - row > 3 * kRowTile; row += 4 * kRowTile) multiply_row_tiles<Tiles, 4>(tiles, task, row);
  switch ((task.rows - row + kRowTile - 1) / kRowTile) {
    case 3: return multiply_row_tiles<Tiles, 3>(tiles, task, row);
    case 2: return multiply_row_tiles<Tiles, 2>(tiles, task, row);
    case 1: return multiply_row_tiles<Tiles, 1>(tiles, task, row);
    default: return;
  }
}

}  // namespace
}  // namespace lynx::matmul
