#pragma once

// Batch-invariant matrix products: Y[M][N] = X[M][K] · W[N][K]ᵀ, BF16 in, FP32 out.
//
// The law: a row of Y depends on that row of X, on W and on the ISA path alone, bit for bit: not on M, on the row's place, nor on
// the number of threads. Each output is summed in a fixed number of chains, each over k ascending, added in a fixed tree (AMX: one
// chain); K is never split. Packed 4- and 8-bit weights give the same bits as the BF16-rounded dequantized weights would.

#include <cstddef>
#include <memory>
#include <span>

#include "common/status.h"
#include "device/bf16_math.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "quant/weight_blocks.h"

namespace lynx::matmul {

/// A weight tensor [rows][cols] as it lies in a file (row-major); not owned. `cols` is a multiple of the type's block.
struct WeightSource {
  quant::WeightType type;
  const std::byte* data;
  int rows;
  int cols;
};

/// Weights in the layout of one ISA path. Owns its memory. Immutable once made, so any thread may read it.
class PackedMatrix {
 public:
  /// Stacks the sources along N (all with the same cols, each with a type of its own) and packs them. 4- and 8-bit types stay
  /// packed where the path is faster with it; all others become BF16 (rounded, ties to even). Any N ≥ 1 and K ≥ 1.
  /// RESOURCE_EXHAUSTED when memory runs out; INVALID_ARGUMENT when cols differ.
  static Result<PackedMatrix> pack(std::span<const WeightSource> sources, Isa isa, ThreadPool& pool);
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  int rows() const;           ///< N
  int cols() const;           ///< K
  std::size_t bytes() const;  ///< Memory held.

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit PackedMatrix(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Y[m][n] = Σ_k X[m][k]·W[n][k] for all m < M, n < N. X: BF16 rows at stride ldx (elements, ≥ K); Y: FP32 rows at stride ldy (≥
/// N). X and Y must not overlap. Called by the pool's owning thread.
void multiply(const PackedMatrix& weights, const Bf16* x, int m, int ldx, float* y, int ldy, ThreadPool& pool);

/// The BF16-rounded row n of W (for embedding look-up from a tied head, and for tests): out[cols].
void read_row(const PackedMatrix& weights, int n, Bf16* out);

}  // namespace lynx::matmul
