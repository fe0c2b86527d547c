#include "server/engine_model_runner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "common/units.h"
#include "server/cache_units.h"

namespace lynx::server {

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(model::Model* model, const Options& options) {
  const kv::KvShape shape = model->kv_shape();
  const kv::AnchorPlaneBytes plane_bytes = options.with_anchors ? largest_anchor_bytes(shape) : kv::AnchorPlaneBytes{};
  const std::int64_t anchor_bytes = kv::AnchorCache::block_bytes(shape.layers, plane_bytes);
  const std::int64_t block_bytes = kv::KvCache::block_bytes(shape) + anchor_bytes;
  const std::int64_t most = options.kv_memory_bytes / block_bytes;
  if (most < 1) {
    return resource_exhausted(fmt::format("kv-memory of {} holds no block: one block of {} tokens takes {}",
                                          format_bytes(options.kv_memory_bytes), kv::kBlockTokens, format_bytes(block_bytes)));
  }
  const int blocks = static_cast<int>(std::min<std::int64_t>(most, std::numeric_limits<kv::BlockId>::max()));
  LYNX_TRY(auto cache, kv::KvCache::create(shape, blocks));
  std::optional<kv::AnchorCache> anchors;
  if (options.with_anchors) {
    LYNX_TRY(anchors, kv::AnchorCache::create(shape.layers, blocks, plane_bytes));
  }
  log_info("KV cache", {{"blocks", blocks},
                        {"tokens", std::int64_t{blocks} * kv::kBlockTokens},
                        {"memory", format_bytes(blocks * block_bytes)},
                        {"of_it_anchors", format_bytes(blocks * anchor_bytes)}});
  return std::unique_ptr<ModelRunner>(new ModelRunner(model, options, std::move(cache), std::move(anchors)));
}

void ModelRunner::complete_prompt(std::span<const kv::BlockId> blocks, int tokens, TransferMode mode) {
  apply_full_view({.cache = &cache_, .blocks = {blocks.begin(), blocks.end()}, .tokens = tokens},
                  {.mode = mode, .profile = profile_, .isa = isa_});
}

}  // namespace lynx::server
