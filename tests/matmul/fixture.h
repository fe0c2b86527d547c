#pragma once

// Random weights in any block format, and every kernel path that this machine can run.

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "matmul/packed_matrix.h"

namespace lynx::matmul {

struct Path {
  std::string_view name;
  const Kernels* kernels;
};

/// All paths that run here; on machines without AMX, its kernels run on emulated tiles. Prints what is left out, once.
const std::vector<Path>& paths();

/// A weight tensor that owns its bytes.
struct Tensor {
  quant::WeightType type;
  int rows;
  int cols;
  std::vector<std::byte> bytes;

  WeightSource source() const { return {type, bytes.data(), rows, cols}; }
  std::vector<float> values() const;  ///< Decoded, not rounded.
};

/// Random blocks with scales of about `scale`; all bit patterns of codes occur.
Tensor random_tensor(quant::WeightType type, int rows, int cols, std::mt19937& random, float scale = 0.02f);

/// The BF16-rounded values of `tensor` as a BF16 tensor.
Tensor bf16_tensor(const Tensor& tensor);

std::vector<Bf16> random_rows(int m, int k, std::mt19937& random);

std::unique_ptr<PackedMatrix::Impl> packed(const std::vector<Tensor>& tensors, const Path& path, ThreadPool& pool);

/// Y[m][N], from X at stride K.
std::vector<float> product(const PackedMatrix::Impl& weights, const std::vector<Bf16>& x, int m, ThreadPool& pool);

bool same_bits(const float* a, const float* b, int count);

}  // namespace lynx::matmul
