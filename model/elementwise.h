#pragma once

// The work of a pass between matrix products, one row at a time. Every operation is rounded by itself and every sum has a fixed
// order, so all ISA paths give the same bits; they differ in speed only.

#include "device/bf16_math.h"
#include "device/isa.h"

namespace lynx::model {

struct ElementwiseKernels {
  /// out = BF16(x · weight / sqrt(mean(x²) + epsilon)), all [n]. The sum of squares runs in 16 interleaved chains, folded in
  /// halves.
  void (*rms_norm)(const float* x, const float* weight, int n, float epsilon, Bf16* out);

  /// x += delta, [n].
  void (*add)(float* x, const float* delta, int n);

  /// out = BF16(gate · up / (1 + e^−gate)), all [n].
  void (*swiglu)(const float* gate, const float* up, int n, Bf16* out);

  /// Rotates `heads` heads of `head_dim` values in place. cosine, sine: [head_dim / 2]. The pairs are (i, i + head_dim / 2).
  void (*rotate_half)(float* x, const float* cosine, const float* sine, int heads, int head_dim);

  /// The same for the pairs (2i, 2i + 1).
  void (*rotate_interleaved)(float* x, const float* cosine, const float* sine, int heads, int head_dim);

  /// out = BF16(x), [n].
  void (*round)(const float* x, int n, Bf16* out);
};

/// The kernels of a path that this machine supports.
const ElementwiseKernels& elementwise_kernels(Isa isa);

}  // namespace lynx::model
