#include "server/engine_model_runner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "common/units.h"

namespace lynx::server {

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(model::Model* model, std::int64_t kv_memory_bytes) {
  const kv::KvShape shape = model->kv_shape();
  const std::int64_t block_bytes = kv::KvCache::block_bytes(shape);
  const std::int64_t blocks = std::min<std::int64_t>(kv_memory_bytes / block_bytes, std::numeric_limits<kv::BlockId>::max());
  if (blocks < 1) {
    return resource_exhausted(fmt::format("kv-memory of {} holds no block: one block of {} tokens takes {}",
                                          format_bytes(kv_memory_bytes), kv::kBlockTokens, format_bytes(block_bytes)));
  }
  LYNX_TRY(auto cache, kv::KvCache::create(shape, static_cast<int>(blocks)));
  log_info("KV cache", {{"blocks", static_cast<int>(blocks)},
                        {"tokens", blocks * kv::kBlockTokens},
                        {"memory", format_bytes(blocks * block_bytes)}});
  return std::unique_ptr<ModelRunner>(new ModelRunner(model, std::move(cache)));
}

}  // namespace lynx::server
