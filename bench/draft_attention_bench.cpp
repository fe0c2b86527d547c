// Speed of drafting's attention on one thread: lynx-bench-draft-attention. SmolLM2's shape over 30 layers, so that nothing stays in
// the second-level cache: the last rows of a context, read from BF16 blocks and from Anchor planes in turn, so that each pass finds
// the other's bytes in the third-level cache. Each figure is the best of several passes over all layers.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "attention/attention.h"
#include "kv/kv_units.h"
#include "quant/plane_codec.h"

namespace lynx {
namespace {

constexpr kv::KvShape kShape{30, 3, 64};
constexpr int kHeads = 9;
constexpr int kMostRows = 16;
constexpr int kLongest = 8192;
constexpr int kBlocks = kLongest / kv::kBlockTokens + 1;
constexpr int kRepeats = 15;

/// Values in the cache, and the planes of all whole blocks. Layers are copies of the first: what they hold costs nothing.
bool fill(kv::KvCache& cache, kv::AnchorCache& planes, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(kv::unit_values(kShape, kv::kBlockTokens));
  for (int block = 0; block < kBlocks; ++block) {
    for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
      const bool is_k = part == kv::KvPart::kK;
      const quant::PlaneUnit unit{is_k ? quant::PlanePart::kK : quant::PlanePart::kV, kShape.kv_heads, kShape.head_dim, block == 0,
                                  false};
      for (Bf16& value : values) value = float_to_bf16(normal(random));
      std::vector<std::byte> anchor(quant::anchor_bytes(unit));
      quant::encode_anchor(Isa::kPortable, unit, values, anchor);
      for (int layer = 0; layer < kShape.layers; ++layer) {
        kv::write_unit(cache, layer, block, part, kv::kBlockTokens, values);
        const std::span<std::byte> plane = planes.plane(layer, block, part);
        if (plane.size() < anchor.size()) return false;
        std::memcpy(plane.data(), anchor.data(), anchor.size());
      }
    }
  }
  return true;
}

void measure(Isa isa, const kv::KvCache& cache, const kv::AnchorCache& planes, const std::vector<Bf16>& q) {
  std::vector<kv::BlockId> table(kBlocks);
  std::iota(table.begin(), table.end(), 0);
  std::vector<Bf16> out(q.size());
  ThreadPool pool(1);
  const attention::AnchorView view{&planes, false};
  const auto pass = [&](int context, int rows, int anchor_blocks) {
    const attention::QuerySpan span{table.data(), context, rows, 0, anchor_blocks};
    const auto start = std::chrono::steady_clock::now();
    for (int layer = 0; layer < kShape.layers; ++layer) {
      attention::attend(cache, layer, {kHeads, 0.125F}, {&span, 1}, q.data(), out.data(), isa, pool, &view);
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  for (const int context : {1024, 2048, 4096, kLongest}) {
    for (const int rows : {1, 4, kMostRows}) {
      double bf16 = 1e9;
      double anchor = 1e9;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        bf16 = std::min(bf16, pass(context, rows, 0));
        anchor = std::min(anchor, pass(context, rows, context / kv::kBlockTokens));
      }
      std::printf("| %s | %d | %d | %.3f | %.3f | %.2f |\n", isa_name(isa).data(), context, rows, bf16, anchor, bf16 / anchor);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace lynx

int main() {
  using namespace lynx;
  auto cache = kv::KvCache::create(kShape, kBlocks);
  const quant::PlaneUnit v{quant::PlanePart::kV, kShape.kv_heads, kShape.head_dim, true, false};
  const quant::PlaneUnit k{quant::PlanePart::kK, kShape.kv_heads, kShape.head_dim, true, false};
  auto planes = kv::AnchorCache::create(kShape.layers, kBlocks, {quant::anchor_bytes(k), quant::anchor_bytes(v)});
  if (!cache.ok() || !planes.ok()) {
    std::fprintf(stderr, "no memory\n");
    return 1;
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Bf16> q(std::size_t{kMostRows} * kHeads * static_cast<std::size_t>(kShape.head_dim));
  for (Bf16& x : q) x = float_to_bf16(normal(random));
  if (!fill(*cache, *planes, random)) {
    std::fprintf(stderr, "planes do not fit\n");
    return 1;
  }
  std::printf("| path | context | rows | BF16 ms | Anchor ms | BF16 / Anchor |\n|---|---:|---:|---:|---:|---:|\n");
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
    if (isa_supported(isa)) measure(isa, *cache, *planes, q);
  }
}
