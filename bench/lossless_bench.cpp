// Speed of the lossless plane on one core: lynx-bench-lossless. Values are normal, as a KV cache's nearly are, in units of the
// sizes that SmolLM2 and an 8-head model send. Each figure is the best of several passes over units that do not fit the
// second-level cache; GB/s count BF16 bytes, memcpy's of the same run stands beside them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "quant/lossless.h"

namespace lynx::quant {
namespace {

constexpr std::size_t kTotalValues = std::size_t{21} * 3 * 65536;  ///< A whole number of units of every size.
constexpr int kRepeats = 7;

template <class Pass>
double best_gb_per_s(Pass pass) {
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return static_cast<double>(kTotalValues * sizeof(Bf16)) / best * 1e-9;
}

/// False if a unit did not come back.
bool measure(Isa isa, std::size_t unit, const std::vector<Bf16>& values) {
  const std::size_t units = values.size() / unit;
  std::vector<Bf16> back(values.size());
  std::vector<std::byte> coded(units * lossless_bound(unit));
  std::vector<std::size_t> bytes(units);
  const auto source = [&](std::size_t i) { return std::span(values).subspan(i * unit, unit); };
  const auto slot = [&](std::size_t i) { return std::span(coded).subspan(i * lossless_bound(unit), lossless_bound(unit)); };
  const auto target = [&](std::size_t i) { return std::span(back).subspan(i * unit, unit); };
  bool sound = true;
  const double copied = best_gb_per_s([&] {
    for (std::size_t i = 0; i < units; ++i) std::memcpy(slot(i).data(), source(i).data(), unit * sizeof(Bf16));
  });
  const double encoded = best_gb_per_s([&] {
    for (std::size_t i = 0; i < units; ++i) bytes[i] = encode_lossless(isa, source(i), slot(i));
  });
  const double decoded = best_gb_per_s([&] {
    for (std::size_t i = 0; i < units; ++i) sound = decode_lossless(isa, slot(i).first(bytes[i]), target(i)).ok() && sound;
  });
  std::size_t total = 0;
  for (const std::size_t size : bytes) total += size;
  std::printf("%-11s unit %6zu  %5.2f bits a value  encode %5.2f GB/s  decode %5.2f GB/s  memcpy %5.2f GB/s\n",
              isa_name(isa).data(), unit, 8.0 * static_cast<double>(total) / static_cast<double>(units * unit), encoded, decoded,
              copied);
  return sound && std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(units * unit), values.begin());
}

}  // namespace
}  // namespace lynx::quant

int main() {
  using namespace lynx;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.1F, 2.0F);
  std::vector<Bf16> values(quant::kTotalValues);
  for (Bf16& value : values) value = float_to_bf16(normal(random));
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16}) {
    for (const std::size_t unit : {std::size_t{3072}, std::size_t{12288}, std::size_t{65536}}) {
      if (isa_supported(isa) && !quant::measure(isa, unit, values)) {
        std::fprintf(stderr, "a unit did not come back\n");
        return 1;
      }
    }
  }
}
