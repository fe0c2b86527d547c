#include "tests/matmul/fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>

#include "tests/catch.h"

namespace lynx::matmul {
namespace {

std::uint16_t f16_near(float value) {  // Truncates; what half precision has no normal number for becomes zero.
  if (std::fabs(value) < 0x1p-14f) return 0;
  const std::uint32_t bits = float_to_bits(value);
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | ((((bits & 0x7fffffffu) - (112u << 23)) >> 13) & 0x7fffu));
}

void put_f16(std::byte* target, float value) {
  const std::uint16_t half = f16_near(value);
  std::memcpy(target, &half, sizeof half);
}

}  // namespace

const std::vector<Path>& paths() {
  static const std::vector<Path> all = [] {
    std::vector<Path> found{{"portable", &portable_kernels()}};
    if (isa_supported(Isa::kAvx2)) found.push_back({"avx2", &avx2_kernels()});
    if (isa_supported(Isa::kAvx512Bf16)) {
      found.push_back({"avx512bf16", &avx512bf16_kernels()});
      found.push_back({"amxbf16, emulated tiles", &emulated_amx_kernels()});
    }
    if (isa_supported(Isa::kAmxBf16)) found.push_back({"amxbf16", &amx_kernels()});
    for (Isa isa : {Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
      if (!isa_supported(isa)) std::cout << "matmul: this processor cannot run " << isa_name(isa) << "; not tested on it\n";
    }
    return found;
  }();
  return all;
}

std::vector<float> Tensor::values() const {
  std::vector<float> out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  quant::dequantize(type, bytes.data(), out.size(), out.data());
  return out;
}

Tensor random_tensor(quant::WeightType type, int rows, int cols, std::mt19937& random, float scale) {
  using quant::WeightType;
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  const std::size_t block = quant::block_bytes(type);
  Tensor tensor{type, rows, cols, std::vector<std::byte>(values / static_cast<std::size_t>(quant::block_values(type)) * block)};
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
  std::uniform_real_distribution<float> around(0.5f * scale, 2.0f * scale);
  std::normal_distribution<float> normal(0.0f, scale);
  for (std::size_t at = 0; at < tensor.bytes.size(); at += block) {
    std::byte* bytes = &tensor.bytes[at];
    switch (type) {
      case WeightType::kF32: {
        const float value = normal(random);
        std::memcpy(bytes, &value, sizeof value);
        break;
      }
      case WeightType::kF16: put_f16(bytes, std::clamp(normal(random), -30000.0f, 30000.0f)); break;
      case WeightType::kBf16: {
        const Bf16 value = float_to_bf16(normal(random));
        std::memcpy(bytes, &value, sizeof value);
        break;
      }
      case WeightType::kQ4_1:
      case WeightType::kQ5_1:
        put_f16(bytes, around(random));
        put_f16(bytes + 2, -8 * around(random));
        break;
      case WeightType::kQ4_K:
      case WeightType::kQ5_K:
        put_f16(bytes, around(random) / 32);
        put_f16(bytes + 2, around(random) / 4);
        break;
      case WeightType::kQ6_K: put_f16(bytes + 208, around(random) / 64); break;
      default: put_f16(bytes, around(random)); break;  // The scale comes first.
    }
  }
  return tensor;
}

Tensor bf16_tensor(const Tensor& tensor) {
  const std::vector<float> values = tensor.values();
  Tensor out{quant::WeightType::kBf16, tensor.rows, tensor.cols, std::vector<std::byte>(2 * values.size())};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Bf16 value = float_to_bf16(values[i]);
    std::memcpy(&out.bytes[2 * i], &value, sizeof value);
  }
  return out;
}

std::vector<Bf16> random_rows(int m, int k, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> rows(static_cast<std::size_t>(m) * static_cast<std::size_t>(k));
  for (Bf16& value : rows) value = float_to_bf16(normal(random));
  return rows;
}

std::unique_ptr<PackedMatrix::Impl> packed(const std::vector<Tensor>& tensors, const Path& path, ThreadPool& pool) {
  std::vector<WeightSource> sources;
  for (const Tensor& tensor : tensors) sources.push_back(tensor.source());
  auto result = pack_for(sources, *path.kernels, pool);
  REQUIRE(result.ok());
  return std::move(result).value();
}

std::vector<float> product(const PackedMatrix::Impl& weights, const std::vector<Bf16>& x, int m, ThreadPool& pool) {
  std::vector<float> y(static_cast<std::size_t>(m) * static_cast<std::size_t>(weights.rows), -1.0f);
  multiply_with(weights, x.data(), m, weights.cols, y.data(), weights.rows, pool);
  return y;
}

bool same_bits(const float* a, const float* b, int count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0;
}

}  // namespace lynx::matmul
