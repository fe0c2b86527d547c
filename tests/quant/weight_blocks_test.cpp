#include "quant/weight_blocks.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "device/portability.h"
#include "tests/catch.h"

namespace lynx::quant {
namespace {

constexpr WeightType kAllTypes[] = {WeightType::kF32,  WeightType::kF16,  WeightType::kBf16, WeightType::kQ4_0,
                                    WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
                                    WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.is_open());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

bool same_bits_or_both_nan(float a, float b) {
  return float_to_bits(a) == float_to_bits(b) || (std::isnan(a) && std::isnan(b));
}

/// Random codes and sub-scales; the half-precision scales are finite, with all exponents.
std::vector<std::byte> random_blocks(WeightType type, int count, std::mt19937_64& rng) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * block_bytes(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng() & 0xff);
  const bool two_scales = type == WeightType::kQ4_1 || type == WeightType::kQ4_K;
  for (int i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < (two_scales ? 2U : 1U); ++s) {
      const auto half = static_cast<std::uint16_t>((rng() % 0x7c00) | ((rng() & 1) << 15));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * block_bytes(type) + 2 * s, &half, 2);
    }
  }
  return bytes;
}

TEST_CASE("Every type decodes to the reference's bits") {
  for (const WeightType type : kAllTypes) {
    const std::string stem = "tests/goldens/quant/" + std::string(weight_type_name(type));
    CAPTURE(stem);
    const auto blocks = read_file(stem + ".blocks");
    const auto expected_bytes = read_file(stem + ".values");
    std::vector<float> expected(expected_bytes.size() / sizeof(float));
    std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());
    REQUIRE(blocks.size() / block_bytes(type) * static_cast<std::size_t>(block_values(type)) == expected.size());
    REQUIRE(expected.size() >= 256);

    // At every alignment: files promise none inside a tensor.
    for (std::size_t shift : {0, 1, 3}) {
      std::vector<std::byte> shifted(blocks.size() + shift);
      std::memcpy(shifted.data() + shift, blocks.data(), blocks.size());
      std::vector<float> got(expected.size());
      dequantize(type, shifted.data() + shift, got.size(), got.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) wrong += same_bits_or_both_nan(got[i], expected[i]) ? 0 : 1;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("Nothing is read or written outside the values asked for") {
  for (const WeightType type : kAllTypes) {
    const auto values = static_cast<std::size_t>(block_values(type));
    std::vector<std::byte> block(block_bytes(type), std::byte{0x11});
    std::vector<float> out(values + 1, 7.5F);
    dequantize(type, block.data(), values, out.data());
    CHECK(out[values] == 7.5F);
    dequantize(type, block.data(), 0, nullptr);
  }
}

TEST_CASE("Affine groups are the decoded values") {
  const std::uint64_t seed = 20260701;
  CAPTURE(seed);
  std::mt19937_64 rng(seed);
  int packed_types = 0;
  for (const WeightType type : kAllTypes) {
    if (affine_bits(type) == 0) continue;
    ++packed_types;
    CAPTURE(weight_type_name(type));
    const int count = 400;
    const auto row = random_blocks(type, count, rng);
    std::vector<float> expected(static_cast<std::size_t>(count * block_values(type)));
    dequantize(type, row.data(), expected.size(), expected.data());
    std::size_t wrong = 0;
    for (std::size_t g = 0; g < expected.size() / kAffineGroup; ++g) {
      AffineGroup group;
      read_affine_group(type, row.data(), g, &group);
      for (std::size_t i = 0; i < kAffineGroup; ++i) {
        const int code = group.codes[i];
        if (affine_bits(type) == 4 && (code < 0 || code > 15)) ++wrong;
        const double product = static_cast<double>(group.scale) * code;
        const float value = group.scale * static_cast<float>(code) + group.minimum;
        if (static_cast<double>(static_cast<float>(product)) != product) ++wrong;  // The product is exact: a fused form agrees.
        if (value != expected[g * kAffineGroup + i]) ++wrong;                      // −0 == +0, as documented.
      }
      if (type == WeightType::kQ8_0 && group.minimum != 0.0F) ++wrong;
    }
    CHECK(wrong == 0);
  }
  CHECK(packed_types == 4);
}

}  // namespace
}  // namespace lynx::quant
