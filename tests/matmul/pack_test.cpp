#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "matmul/matmul.h"
#include "tests/catch.h"
#include "tests/matmul/fixture.h"

namespace lynx::matmul {
namespace {

using quant::WeightType;

constexpr unsigned kSeed = 99;

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

PackedMatrix pack(const std::vector<Tensor>& tensors, Isa isa) {
  ThreadPool pool(2);
  std::vector<WeightSource> sources;
  for (const Tensor& tensor : tensors) sources.push_back(tensor.source());
  auto result = PackedMatrix::pack(sources, isa, pool);
  REQUIRE(result.ok());
  return std::move(result).value();
}

TEST_CASE("A stack of mixed types is its parts side by side") {
  std::mt19937 random(kSeed);
  const std::vector<Tensor> parts{
      random_tensor(WeightType::kQ4_1, 50, 512, random), random_tensor(WeightType::kQ6_K, 17, 512, random),
      random_tensor(WeightType::kQ8_0, 1, 512, random), random_tensor(WeightType::kQ4_K, 33, 512, random),
      random_tensor(WeightType::kF32, 16, 512, random)};
  for (Isa isa : supported_isas()) {
    INFO(isa_name(isa) << ", seed " << kSeed);
    ThreadPool pool(2);
    const PackedMatrix stacked = pack(parts, isa);
    REQUIRE(stacked.rows() == 117);
    REQUIRE(stacked.cols() == 512);
    const std::vector<Bf16> x = random_rows(23, 512, random);
    std::vector<float> y(23 * 117);
    multiply(stacked, x.data(), 23, 512, y.data(), 117, pool);
    std::size_t column = 0;
    for (const Tensor& part : parts) {
      const PackedMatrix alone = pack({part}, isa);
      const auto n = static_cast<std::size_t>(part.rows);
      std::vector<float> expected(23 * n);
      multiply(alone, x.data(), 23, 512, expected.data(), part.rows, pool);
      for (std::size_t row = 0; row < 23; ++row) CHECK(same_bits(&y[row * 117 + column], &expected[row * n], part.rows));
      column += n;
    }
  }
}

TEST_CASE("read_row gives the BF16-rounded weights") {
  std::mt19937 random(kSeed);
  for (WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_1,
                          WeightType::kQ8_0, WeightType::kQ4_K, WeightType::kQ6_K}) {
    const Tensor first = random_tensor(WeightType::kQ8_0, 3, 256, random);
    const Tensor tensor = random_tensor(type, 37, 256, random);
    const std::vector<float> values = tensor.values();
    for (Isa isa : supported_isas()) {
      INFO(isa_name(isa) << ", " << quant::weight_type_name(type) << ", seed " << kSeed);
      const PackedMatrix weights = pack({first, tensor}, isa);
      int wrong = 0;
      for (int n = 0; n < 37; ++n) {
        std::vector<Bf16> row(256);
        read_row(weights, 3 + n, row.data());
        for (std::size_t k = 0; k < 256; ++k) {
          const Bf16 expected = float_to_bf16(values[static_cast<std::size_t>(n) * 256 + k]);
          wrong += row[k] != expected && !((row[k] | expected) == 0x8000);  // Zeros may differ in sign.
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("4- and 8-bit types stay packed where the path keeps them so") {
  std::mt19937 random(kSeed);
  for (const Path& path : paths()) {
    INFO(path.name);
    ThreadPool pool(1);
    auto bytes = [&](WeightType type) {
      return packed({random_tensor(type, 64, 512, random)}, path, pool)->segments[0].data.size();
    };
    const std::size_t bf16 = 64 * 512 * 2;
    CHECK(bytes(WeightType::kBf16) == bf16);
    CHECK(bytes(WeightType::kQ4_1) == (path.kernels->keeps_packed ? bf16 * 5 / 16 : bf16));
    CHECK(bytes(WeightType::kQ4_K) == (path.kernels->keeps_packed ? bf16 * 6 / 16 : bf16));
    CHECK(bytes(WeightType::kQ8_0) == (path.kernels->keeps_packed ? bf16 * 17 / 32 : bf16));
  }
}

TEST_CASE("Scales that are no ordinary numbers fall back to BF16") {
  for (const Path& path : paths()) {
    INFO(path.name << ", seed " << kSeed);
    std::mt19937 random(kSeed);
    ThreadPool pool(2);
    Tensor tensor = random_tensor(WeightType::kQ4_1, 40, 64, random);
    const std::uint16_t infinity = 0x7c00;
    std::memcpy(&tensor.bytes[20 * 7], &infinity, sizeof infinity);
    const auto weights = packed({tensor}, path, pool);
    CHECK(weights->segments[0].format == Format::kBf16);
    const std::vector<Bf16> x = random_rows(3, 64, random);
    const std::vector<float> y = product(*weights, x, 3, pool);
    const std::vector<float> expected = product(*packed({bf16_tensor(tensor)}, path, pool), x, 3, pool);
    CHECK(std::equal(y.begin() + 4, y.begin() + 40, expected.begin() + 4));  // Rows 0 … 3 hold NaN or none; the rest are numbers.
  }
}

TEST_CASE("Subnormal half-precision scales stay exact") {
  std::mt19937 random(kSeed);
  Tensor tensor = random_tensor(WeightType::kQ4_0, 16, 32, random);
  for (std::size_t row = 0; row < 16; ++row) {
    const auto half = static_cast<std::uint16_t>(row == 0 ? 0 : (row % 2 == 0 ? 0x8000u : 0u) | (0x3ffu >> (row / 2)));
    std::memcpy(&tensor.bytes[18 * row], &half, sizeof half);
  }
  const std::vector<float> values = tensor.values();
  for (Isa isa : supported_isas()) {
    INFO(isa_name(isa) << ", seed " << kSeed);
    const PackedMatrix weights = pack({tensor}, isa);
    for (std::size_t row = 0; row < 16; ++row) {
      std::vector<Bf16> out(32);
      read_row(weights, static_cast<int>(row), out.data());
      for (std::size_t k = 0; k < 32; ++k) REQUIRE(bf16_to_float(out[k]) == bf16_to_float(float_to_bf16(values[row * 32 + k])));
    }
  }
}

TEST_CASE("Sources that cannot be stacked are refused, and named") {
  std::mt19937 random(kSeed);
  ThreadPool pool(1);
  const Tensor narrow = random_tensor(WeightType::kF32, 2, 31, random);
  const Tensor wide = random_tensor(WeightType::kQ8_0, 2, 64, random);
  auto refused = [&](std::vector<WeightSource> sources) {
    auto result = PackedMatrix::pack(sources, Isa::kPortable, pool);
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code() == Code::kInvalidArgument);
    return result.status().message();
  };
  refused({});
  CHECK(refused({wide.source(), narrow.source()}).find("[2, 31]") != std::string::npos);
  CHECK(refused({{WeightType::kQ4_1, wide.bytes.data(), 1, 33}}).find("Q4_1") != std::string::npos);
  refused({{WeightType::kF32, narrow.bytes.data(), 0, 31}});
  refused({{WeightType::kF32, narrow.bytes.data(), 2, -1}});
}

TEST_CASE("What does not fit into memory is RESOURCE_EXHAUSTED") {
  ThreadPool pool(1);
  const int huge = std::numeric_limits<int>::max() / 256 * 256;
  const std::byte none{};
  const WeightSource source{WeightType::kF32, &none, huge, huge};  // Refused before a byte is read.
  auto result = PackedMatrix::pack({&source, 1}, Isa::kPortable, pool);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == Code::kResourceExhausted);
}

TEST_CASE("A packed matrix can be moved") {
  std::mt19937 random(kSeed);
  PackedMatrix first = pack({random_tensor(WeightType::kQ4_1, 20, 32, random)}, Isa::kPortable);
  const std::size_t bytes = first.bytes();
  PackedMatrix second = std::move(first);
  CHECK(second.bytes() == bytes);
  CHECK(second.rows() == 20);
}

}  // namespace
}  // namespace lynx::matmul
