#pragma once

// The loops shared by the paths that keep an output's chains in the lanes of one vector register. A path brings two types:
//
//   Lanes   Acc; Step, which holds kStep BF16 values; kBlockRows × kBlockColumns, the outputs kept in registers; zero(), load(),
//           dot(acc, x, w); reduce(acc, out, stride), which adds the lanes in a fixed tree.
//   Loader  at(chunk, column) → a cursor whose load(step, j) is the Step of weights of panel column `column + j`. `column` is a
//           multiple of the block's columns, j a constant once the loops are unrolled. refill<columns>(first, last, column) comes
//           before any use of the chunks [first, last) of those columns.
//
// An output's bits are those of: each lane over k ascending, then the tree. No blocking changes them.
//
// Internal linkage throughout: compiled once per path, and never merged by the linker.

#include "matmul/kernels.h"

// Loops over register arrays must be unrolled whole, or the compiler keeps the arrays in memory.
#if defined(__clang__)
#define LYNX_UNROLL _Pragma("unroll")
#define LYNX_NO_UNROLL _Pragma("nounroll")
#else
#define LYNX_UNROLL _Pragma("GCC unroll 16")
#define LYNX_NO_UNROLL _Pragma("GCC unroll 1")
#endif

namespace lynx::matmul {
namespace {

/// Reads a BF16 panel in place.
template <class Lanes>
class Bf16Loader {
 public:
  static constexpr int kRefillChunks = 1 << 26;

  explicit Bf16Loader(const Panel& panel)
      : data_(reinterpret_cast<const Bf16*>(panel.data)), strides_(bf16_strides(panel.order, panel.chunks)) {}
  void refill(int, int) {}
  void prefetch(int) const {}

  struct Cursor {
    const Bf16* row;
    std::size_t strip;
    [[gnu::always_inline]] typename Lanes::Step load(int step, int j) const {
      return Lanes::load(row + static_cast<std::size_t>(j / kStripRows) * strip + (j % kStripRows) * kChunk + step * Lanes::kStep);
    }
  };
  [[gnu::always_inline]] Cursor at(int chunk, int column) const {
    return {data_ + static_cast<std::size_t>(column / kStripRows) * strides_.strip + (column % kStripRows) * kChunk +
                static_cast<std::size_t>(chunk) * strides_.chunk,
            strides_.strip};
  }

 private:
  const Bf16* data_;
  Bf16Strides strides_;
};

/// Adds the chunks [first, last) to the chains; x points at chunk `first`.
template <class Lanes, int kRows, int kColumns, class Loader>
[[gnu::always_inline]] inline void accumulate(typename Lanes::Acc (&acc)[kRows][kColumns], const Loader& loader, int column,
                                              const Bf16* x, std::size_t ldx, int first, int last) {
  for (int chunk = first; chunk < last; ++chunk, x += kChunk) {
    const auto cursor = loader.at(chunk, column);
    if (column == 0) loader.prefetch(chunk);
    LYNX_NO_UNROLL
    for (int step = 0; step < kChunk / Lanes::kStep; ++step) {
      typename Lanes::Step rows[kRows];
      LYNX_UNROLL
      for (int i = 0; i < kRows; ++i) rows[i] = Lanes::load(x + static_cast<std::size_t>(i) * ldx + step * Lanes::kStep);
      LYNX_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const typename Lanes::Step weights = cursor.load(step, j);
        LYNX_UNROLL
        for (int i = 0; i < kRows; ++i) acc[i][j] = Lanes::dot(acc[i][j], rows[i], weights);
      }
    }
  }
}

/// kRows × kColumns outputs, from panel column `column` on.
template <class Lanes, int kRows, int kColumns, class Loader>
[[gnu::always_inline]] inline void multiply_block(Loader& loader, int column, const Bf16* x, std::size_t ldx, int k, float* out,
                                                  std::size_t stride) {
  typename Lanes::Acc acc[kRows][kColumns];
  LYNX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    LYNX_UNROLL
    for (int j = 0; j < kColumns; ++j) acc[i][j] = Lanes::zero();
  }
  const int whole = k / kChunk;
  for (int first = 0; first < whole; first += Loader::kRefillChunks) {
    const int last = whole - first < Loader::kRefillChunks ? whole : first + Loader::kRefillChunks;
    loader.refill(first, last);
    accumulate<Lanes>(acc, loader, column, x + static_cast<std::size_t>(first) * kChunk, ldx, first, last);
  }
  if (const int rest = k % kChunk; rest != 0) {
    alignas(64) Bf16 tail[kRows][kChunk] = {};
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < rest; ++v)
        tail[i][v] = x[static_cast<std::size_t>(i) * ldx + static_cast<std::size_t>(whole * kChunk + v)];
    }
    loader.refill(whole, whole + 1);
    accumulate<Lanes>(acc, loader, column, &tail[0][0], kChunk, whole, whole + 1);
  }
  Lanes::reduce(acc, out, stride);
}

/// Up to kColumns outputs of kRows rows; those beyond the panel's real columns are computed and dropped.
template <class Lanes, int kRows, int kColumns, class Loader>
[[gnu::always_inline]] inline void multiply_columns(Loader& loader, int column, const PanelTask& task, int row) {
  const Bf16* x = task.x + static_cast<std::size_t>(row) * task.ldx;
  float* y = task.y + static_cast<std::size_t>(row) * task.ldy + column;
  const int real = task.panel.columns - column;
  float padded[kRows][kColumns];
  multiply_block<Lanes, kRows, kColumns>(loader, column, x, task.ldx, task.k, real < kColumns ? &padded[0][0] : y,
                                         real < kColumns ? kColumns : task.ldy);
  if (real >= kColumns) return;
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < real; ++j) y[static_cast<std::size_t>(i) * task.ldy + j] = padded[i][j];
  }
}

template <class Lanes, int kRows, class Loader>
void multiply_rows(Loader& loader, const PanelTask& task, int row) {
  constexpr int kColumns = kRows == 1 ? Lanes::kSingleRowColumns : Lanes::kBlockColumns;
  for (int column = 0; column < task.panel.columns; column += kColumns) {
    multiply_columns<Lanes, kRows, kColumns>(loader, column, task, row);
  }
}

/// All rows of the task, kBlockRows (at most 4) at a time.
template <class Lanes, class Loader>
void multiply_with(Loader loader, const PanelTask& task) {
  constexpr int kRows = Lanes::kBlockRows;
  static_assert(kRows <= 4);
  int row = 0;
  for (; task.rows - row >= kRows; row += kRows) multiply_rows<Lanes, kRows>(loader, task, row);
  const int rest = task.rows - row;
  if (rest == 1) return multiply_rows<Lanes, 1>(loader, task, row);
  if constexpr (kRows > 2) {
    if (rest == 2) return multiply_rows<Lanes, 2>(loader, task, row);
  }
  if constexpr (kRows > 3) {
    if (rest == 3) return multiply_rows<Lanes, 3>(loader, task, row);
  }
}

/// Decodes a packed panel into BF16 strips or tiles.
template <class Lanes, class Loader>
void expand_with(Loader loader, const Panel& panel, Bf16* out) {
  const Bf16Strides strides = bf16_strides(panel.order, panel.chunks);
  for (int first = 0; first < panel.chunks; first += Loader::kRefillChunks) {
    const int last = panel.chunks - first < Loader::kRefillChunks ? panel.chunks : first + Loader::kRefillChunks;
    loader.refill(first, last);
    for (int chunk = first; chunk < last; ++chunk) {
      const auto cursor = loader.at(chunk, 0);
      loader.prefetch(chunk);
      Bf16* block = out + static_cast<std::size_t>(chunk) * strides.chunk;
      LYNX_UNROLL
      for (int column = 0; column < kPanelRows; ++column) {
        Bf16* row = block + static_cast<std::size_t>(column / kStripRows) * strides.strip + (column % kStripRows) * kChunk;
        for (int step = 0; step < kChunk / Lanes::kStep; ++step) {
          Lanes::store(row + step * Lanes::kStep, cursor.load(step, column));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lynx::matmul
