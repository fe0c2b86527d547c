#pragma once

// Units and values that between them reach every branch of the planes, for codecs that are held against quant/plane_codec.h.

#include <random>
#include <vector>

#include "device/bf16_math.h"
#include "quant/plane_unit.h"

namespace lynx::quant {

inline std::vector<PlaneUnit> sample_units() {
  std::vector<PlaneUnit> units;
  for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
    for (const bool wide : {false, true}) {
      for (const bool first : {false, true}) {
        for (const int head_dim : {2, 48, 64, 128}) units.push_back({part, head_dim == 64 ? 3 : 1, head_dim, first, wide});
      }
    }
  }
  return units;
}

/// Bits that no Residual shortens; values around 0, or far from it; these with NaN, infinities, −0 and denormals among them.
inline constexpr int kSampleKinds = 4;

inline std::vector<Bf16> sample_values(int kind, std::size_t count, std::mt19937_64& rng) {
  constexpr Bf16 kSpecials[] = {0x7f80, 0xff80, 0x7fc1, 0x8000, 0x0000, 0x0001, 0x807f, 0x7f7f};
  std::normal_distribution<float> normal(0, 1);
  std::vector<Bf16> values(count);
  for (Bf16& value : values) {
    const float x = normal(rng);
    value = float_to_bf16(kind == 2 ? 13.0f + x : x);
    if (kind == 0) value = static_cast<Bf16>(rng());
    if (kind == 3 && rng() % 16 == 0) value = kSpecials[rng() % 8];
  }
  return values;
}

}  // namespace lynx::quant
