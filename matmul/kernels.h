#pragma once

// What one ISA path offers to multiply() and pack(): plain functions behind a table, each path in a translation unit of its own
// that is compiled for its processors.

#include <cstddef>

#include "device/bf16_math.h"
#include "device/isa.h"
#include "matmul/panel.h"

namespace lynx::matmul {

/// Y[m][0 … columns−1] = X[m] · panel, for `rows` rows. `x` are rows at stride ldx (elements), or row tiles (see pack_rows).
struct PanelTask {
  Panel panel;
  const Bf16* x;
  std::size_t ldx;
  int rows;
  int k;
  float* y;
  std::size_t ldy;
};

inline constexpr int kRowTile = 16;  ///< Rows of X that pack_rows takes.

struct Kernels {
  Bf16Order order;
  bool keeps_packed;  ///< Whether 4- and 8-bit types stay packed.
  int fused_rows;     ///< Up to so many rows of X the weights are decoded in registers; above, once into scratch memory.

  /// Any format that pack() makes for this path.
  void (*multiply_panel)(const PanelTask& task);
  /// Decodes a packed panel into a BF16 one of this path's order. Null if keeps_packed is false.
  void (*expand_panel)(const Panel& panel, Bf16* out);
  /// Null if X is read as it is. Else turns up to 16 rows of X into chunk_count(k) tiles [16 pairs of k][16 rows][2], zero-padded.
  void (*pack_rows)(const Bf16* x, int rows, std::size_t ldx, int k, Bf16* out);
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512bf16_kernels();
const Kernels& amx_kernels();
/// The AMX path with its tile operations emulated: needs AVX-512 only. For tests.
const Kernels& emulated_amx_kernels();

/// The path's table. Only for isa_supported(isa).
const Kernels& kernels_for(Isa isa);

}  // namespace lynx::matmul
