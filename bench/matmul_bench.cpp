// Times multiply() on the shapes of SmolLM2-135M: lynx-bench-matmul [threads] [isa]. Each figure is the least of several repeats
// over enough copies of the weights that decode reads them from memory, as a whole model does.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "matmul/matmul.h"

namespace lynx::matmul {
namespace {

constexpr int kRepeats = 7;
constexpr std::size_t kColdBytes = std::size_t{96} << 20;

struct Shape {
  const char* name;
  int n;
  int k;
};

constexpr Shape kShapes[] = {{"qkv", 960, 576}, {"attention out", 576, 576}, {"gate+up", 3072, 576}, {"down", 576, 1536}};

std::vector<std::byte> random_blocks(quant::WeightType type, int n, int k, std::mt19937& random) {
  const std::size_t block = quant::block_bytes(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * static_cast<std::size_t>(k / quant::block_values(type)) * block);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::uint16_t scale = 0x2800;    // 2⁻⁵ in half precision; a block begins with its scale (and minimum).
  const std::uint16_t minimum = 0xb400;  // −2⁻²
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    std::memcpy(&bytes[at], &scale, 2);
    if (type == quant::WeightType::kQ4_1) std::memcpy(&bytes[at + 2], &minimum, 2);
  }
  return bytes;
}

void run(const Shape& shape, quant::WeightType type, int m, Isa isa, ThreadPool& pool, std::mt19937& random) {
  const auto blocks = random_blocks(type, shape.n, shape.k, random);
  const WeightSource source{type, blocks.data(), shape.n, shape.k};
  std::vector<PackedMatrix> copies;
  std::size_t held = 0;
  do {
    copies.push_back(PackedMatrix::pack({&source, 1}, isa, pool).value());
    held += copies.back().bytes();
  } while (m <= 64 && held < kColdBytes);
  std::vector<Bf16> x(static_cast<std::size_t>(m) * static_cast<std::size_t>(shape.k), float_to_bf16(0.37f));
  std::vector<float> y(static_cast<std::size_t>(m) * static_cast<std::size_t>(shape.n));
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (const PackedMatrix& weights : copies) {
      const auto start = std::chrono::steady_clock::now();
      multiply(weights, x.data(), m, shape.k, y.data(), shape.n, pool);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      best = std::min(best, taken.count());
    }
  }
  const double flops = 2.0 * m * shape.n * shape.k;
  std::printf("%-14s %-5s M %4d  %9.3f ms  %7.1f GFLOP/s  %5.1f GB/s of weights\n", shape.name,
              quant::weight_type_name(type).data(), m, best * 1e3, flops / best * 1e-9,
              static_cast<double>(copies.front().bytes()) / best * 1e-9);
}

}  // namespace
}  // namespace lynx::matmul

int main(int argc, char** argv) {
  using namespace lynx;
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  Result<Isa> isa = choose_isa(argc > 2 ? argv[2] : "auto");
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().to_string().c_str());
    return 1;
  }
  std::printf("threads %d, isa %s\n", pool.size(), isa_name(*isa).data());
  std::mt19937 random(1);
  for (int m : {1, 2, 4, 8, 16, 512, 2048}) {
    for (const auto& shape : matmul::kShapes) matmul::run(shape, quant::WeightType::kQ4_1, m, *isa, pool, random);
    if (m <= 16) matmul::run({"head", 49152, 576}, quant::WeightType::kQ8_0, m, *isa, pool, random);
  }
}
