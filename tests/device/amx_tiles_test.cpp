#include "device/amx_tiles.h"

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#include "device/bf16_math.h"
#include "device/isa.h"
#include "tests/catch.h"

namespace lynx {
namespace {

constexpr unsigned kSeed = 77;

struct Operands {
  Bf16 left[16][32];      ///< [m][k]
  Bf16 right[16][16][2];  ///< [k/2][n][k%2]
  float start[16][16];    ///< The accumulator before.
};

Operands random_operands(std::mt19937& random, float magnitude) {
  std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
  Operands o;
  for (auto& row : o.left) {
    for (Bf16& value : row) value = float_to_bf16(uniform(random));
  }
  for (auto& pair : o.right) {
    for (auto& column : pair) {
      for (Bf16& value : column) value = float_to_bf16(uniform(random));
    }
  }
  for (auto& row : o.start) {
    for (float& value : row) value = uniform(random);
  }
  return o;
}

template <class Tiles>
void dot(const Operands& o, float (&out)[16][16]) {
  Tiles tiles;
  tiles.template load<0>(o.start, 64);
  tiles.template load<6>(o.left, 64);
  tiles.template load<7>(o.right, 64);
  tiles.template dot<0, 6, 7>();
  tiles.template store<0>(out, 64);
}

TEST_CASE("An emulated tile product is the product") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20; ++round) {
    const Operands o = random_operands(random, 2.0f);
    float out[16][16];
    dot<EmulatedTiles>(o, out);
    double worst = 0;
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) {
        double exact = o.start[m][n];
        for (int k = 0; k < 32; ++k) {
          exact += static_cast<double>(bf16_to_float(o.left[m][k])) * static_cast<double>(bf16_to_float(o.right[k / 2][n][k % 2]));
        }
        worst = std::max(worst, std::fabs(exact - static_cast<double>(out[m][n])));
      }
    }
    CHECK(worst < 34 * 128 * 0x1p-24);  // One rounding a term, each sum below 32·4 + 2.
  }
}

TEST_CASE("Tiles load, zero and store with a stride") {
  EmulatedTiles tiles;
  std::vector<float> wide(16 * 20, 1.0f);
  tiles.load<3>(wide.data(), 80);
  tiles.zero<4>();
  std::vector<float> out(16 * 20, 5.0f);
  tiles.store<4>(out.data(), 80);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 20; ++column) {
      REQUIRE(out[static_cast<std::size_t>(row * 20 + column)] == (column < 16 ? 0.0f : 5.0f));
    }
  }
  tiles.store<3>(out.data(), 80);
  CHECK(out[15 * 20 + 15] == 1.0f);
}

TEST_CASE("Subnormal inputs and results count as zero") {
  Operands o = {};
  o.left[0][0] = 0x0001;  // A subnormal.
  o.right[0][0][0] = float_to_bf16(1e30f);
  o.left[1][0] = float_to_bf16(1e-30f);
  o.right[0][1][0] = float_to_bf16(1e-10f);  // 1e-40: a subnormal product.
  float out[16][16];
  dot<EmulatedTiles>(o, out);
  CHECK(out[0][0] == 0.0f);
  CHECK(out[1][1] == 0.0f);
}

TEST_CASE("The hardware multiplies as the emulation does") {
  if (!isa_supported(Isa::kAmxBf16)) {
    std::cout << "amx_tiles: this processor has no AMX; only the emulation was tested\n";
    return;
  }
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 100; ++round) {
    const Operands o = random_operands(random, 2.0f);
    float hardware[16][16];
    float emulated[16][16];
    dot<AmxTiles>(o, hardware);
    dot<EmulatedTiles>(o, emulated);
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) REQUIRE(std::fabs(hardware[m][n] - emulated[m][n]) < 34 * 128 * 0x1p-23f);
    }
  }
}

}  // namespace
}  // namespace lynx
