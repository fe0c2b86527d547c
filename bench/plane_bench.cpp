// Speed of the progressive planes on one core: lynx-bench-planes. Units have SmolLM2's shape, K and V in turn, with values as a KV
// cache has them: about normal, K's channels around means of their own, V's tokens of different sizes. Each figure is of several
// passes over units that do not fit the second-level cache, best and median; GB/s count BF16 bytes, and memcpy's of the same run
// stand beside them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quant/plane_codec.h"

namespace lynx::quant {
namespace {

constexpr int kUnits = 256;
constexpr int kRepeats = 15;
constexpr int kHeads = 3;
constexpr int kHeadDim = 64;
constexpr std::size_t kUnitValues = std::size_t{kHeads} * kHeadDim * kPlaneBlockTokens;

struct Speed {
  double best;
  double median;
};

template <class Pass>
Speed measure(Pass pass) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kUnits; ++i) pass(i);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double gigabytes = static_cast<double>(kUnits * kUnitValues * sizeof(Bf16)) * 1e-9;
  return {gigabytes / seconds.front(), gigabytes / seconds[kRepeats / 2]};
}

void print(const char* path, const char* operation, Speed speed, Speed copy) {
  std::printf("%-10s %-24s %6.2f best %6.2f median GB/s   memcpy %6.2f %6.2f\n", path, operation, speed.best, speed.median,
              copy.best, copy.median);
}

/// The one that is at `index` of a plane of all units.
template <class T>
std::span<T> part(std::vector<T>& all, std::size_t index) {
  return std::span(all).subspan(index * (all.size() / kUnits), all.size() / kUnits);
}

PlaneUnit unit_at(std::size_t index, bool wide) {
  return {index % 2 == 0 ? PlanePart::kK : PlanePart::kV, kHeads, kHeadDim, false, wide};
}

std::vector<Bf16> make_values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<Bf16> values(kUnits * kUnitValues);
  for (std::size_t u = 0; u < kUnits; ++u) {
    const PlaneUnit unit = unit_at(u, false);
    std::vector<float> means(std::size_t{kHeads} * kHeadDim);
    std::vector<float> sizes(std::size_t{kHeads} * kPlaneBlockTokens);
    for (float& mean : means) mean = unit.part == PlanePart::kK ? 2 * normal(random) : 0;
    for (float& size : sizes) size = 0.5f + 0.2f * normal(random);
    for (int head = 0; head < kHeads; ++head) {
      for (int token = 0; token < kPlaneBlockTokens; ++token) {
        for (int channel = 0; channel < kHeadDim; ++channel) {
          const float x =
              means[plane_size(head * kHeadDim + channel)] + sizes[plane_size(head * kPlaneBlockTokens + token)] * normal(random);
          values[u * kUnitValues + slot_of(unit, head, token, channel)] = float_to_bf16(x);
        }
      }
    }
  }
  return values;
}

/// False if a unit did not come back.
bool measure_path(Isa isa, bool wide, std::vector<Bf16>& values) {
  std::vector<Bf16> back(values.size());
  std::vector<std::byte> anchors(kUnits * anchor_bytes(unit_at(0, wide)));
  std::vector<std::byte> int8(kUnits * kUnitValues / 2);
  std::vector<std::byte> exact(kUnits * kUnitValues * sizeof(Bf16));
  std::vector<std::size_t> bytes(kUnits);
  const auto encode_one = [&](std::size_t i) { encode_anchor(isa, unit_at(i, wide), part(values, i), part(anchors, i)); };
  const auto encode_rest = [&](std::size_t i) {
    bytes[i] = encode_exact_residual(isa, unit_at(i, wide), part(anchors, i), part(values, i), part(exact, i));
  };
  const auto encode_int8 = [&](std::size_t i) {
    encode_int8_residual(isa, unit_at(i, wide), part(anchors, i), part(values, i), part(int8, i));
  };
  bool sound = true;
  const Speed copy = measure([&](std::size_t i) { std::memcpy(part(back, i).data(), part(values, i).data(), kUnitValues * 2); });
  const auto report = [&](const char* operation, Speed speed) {
    print(isa_name(isa).data(), (std::string(wide ? "wide: " : "") + operation).c_str(), speed, copy);
  };
  report("encode Anchor", measure(encode_one));
  if (!wide) report("encode Anchor + int8", measure([&](std::size_t i) { encode_one(i), encode_int8(i); }));
  report("encode Anchor + exact", measure([&](std::size_t i) { encode_one(i), encode_rest(i); }));
  report("decode Anchor", measure([&](std::size_t i) {
           sound = decode_anchor(isa, unit_at(i, wide), part(anchors, i), part(back, i)).ok() && sound;
         }));
  if (!wide) {
    report("decode int8", measure([&](std::size_t i) {
             sound = decode_int8(isa, unit_at(i, wide), part(anchors, i), part(int8, i), part(back, i)).ok() && sound;
           }));
  }
  report("decode exact", measure([&](std::size_t i) {
           sound =
               decode_exact(isa, unit_at(i, wide), part(anchors, i), part(exact, i).first(bytes[i]), part(back, i)).ok() && sound;
         }));
  std::size_t total = anchors.size();
  for (const std::size_t size : bytes) total += size;
  std::printf("%.2f bits a value\n", 8.0 * static_cast<double>(total) / static_cast<double>(values.size()));
  return sound && back == values;
}

}  // namespace
}  // namespace lynx::quant

int main() {
  using namespace lynx;
  std::vector<Bf16> values = quant::make_values();
  for (const bool wide : {false, true}) {
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16}) {
      if (isa_supported(isa) && !quant::measure_path(isa, wide, values)) {
        std::fprintf(stderr, "a unit did not come back\n");
        return 1;
      }
    }
  }
}
