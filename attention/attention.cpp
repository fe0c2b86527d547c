#include "attention/attention.h"

#include <cassert>
#include <memory>
#include <vector>

#include "attention/attend_with.h"
#include "attention/plan.h"
#include "attention/tile.h"

namespace lynx::attention {
namespace {

static_assert(kChunkTokens == kSoftmaxChunk && kBlock == kv::kBlockTokens && kLargestDim == kv::kMaxHeadDim);

/// Bounds the memory for partial states. Beyond it tiles are walked by one thread each: a matter of balance only.
constexpr std::size_t kMaxStateBytes = std::size_t{32} << 20;

ChunkKernel kernel_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return chunk_portable;
    case Isa::kAvx2: return chunk_avx2;
    case Isa::kAvx512Bf16: return chunk_avx512;
    case Isa::kAmxBf16: return chunk_amx;
  }
  return chunk_portable;
}

/// Every thread keeps its own for as long as it lives.
Scratch& scratch_of_thread() {
  thread_local const std::unique_ptr<Scratch> scratch = std::make_unique<Scratch>();
  return *scratch;
}

struct alignas(64) StateLine {
  float values[16];
};

}  // namespace

void attend_with(ChunkKernel kernel, const kv::KvCache& cache, int layer, HeadShape shape, std::span<const QuerySpan> spans,
                 const Bf16* q, Bf16* out, ThreadPool& pool, const AnchorView* anchors) {
  assert(shape.heads % cache.shape().kv_heads == 0);
  const Call call{&cache, layer, shape, spans, q, out, kernel, anchors};
  thread_local Plan plan;
  thread_local std::vector<StateLine> state_memory;
  plan.build(spans, cache.shape().kv_heads, call.group(), call.dim(), pool.size(),
             static_cast<std::ptrdiff_t>(kMaxStateBytes / sizeof(float)));
  const std::size_t state_lines = static_cast<std::size_t>(plan.state_values) * sizeof(float) / sizeof(StateLine);
  if (state_memory.size() < state_lines) state_memory.resize(state_lines);

  const Plan& work = plan;
  float* states = state_memory.empty() ? nullptr : state_memory.front().values;
  const auto run_item = [&](int i) {
    const Item item = work.items[static_cast<std::size_t>(i)];
    const Tile& tile = work.tiles[static_cast<std::size_t>(item.tile)];
    Scratch& scratch = scratch_of_thread();
    if (item.chunk == kAllChunks) return compute_tile(call, tile, scratch);
    compute_split_chunk(call, tile, item.chunk, scratch, states);
  };
  const int items = static_cast<int>(work.items.size());
  if (work.threads == 1) {
    for (int i = 0; i < items; ++i) run_item(i);
    return;
  }
  pool.for_each(items, run_item);
  pool.for_each(static_cast<int>(work.split_tiles.size()), [&](int i) {
    merge_split_tile(call, work.tiles[static_cast<std::size_t>(work.split_tiles[static_cast<std::size_t>(i)])], states);
  });
}

void attend(const kv::KvCache& cache, int layer, HeadShape shape, std::span<const QuerySpan> spans, const Bf16* q, Bf16* out,
            Isa isa, ThreadPool& pool, const AnchorView* anchors) {
  attend_with(kernel_of(isa), cache, layer, shape, spans, q, out, pool, anchors);
}

}  // namespace lynx::attention
