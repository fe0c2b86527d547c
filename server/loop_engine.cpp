#include "server/loop_engine.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "common/units.h"
#include "server/engine_loop.h"
#include "server/engine_model_runner.h"

namespace lynx::server {
namespace {

// The longest sequence: what was asked for, inside what the model and the KV memory allow.
Result<int> choose_max_model_len(const EngineOptions& options, const Runner& runner) {
  const int context = runner.context();
  if (options.max_model_len < 0 || options.max_model_len > context) {
    return invalid_argument(
        fmt::format("max-model-len {} is not within the model's context of {} tokens", options.max_model_len, context));
  }
  const int wanted = options.max_model_len == 0 ? context : options.max_model_len;
  const int fits = static_cast<int>(std::min<std::int64_t>(std::int64_t{runner.kv_blocks()} * kv::kBlockTokens, wanted));
  if (fits < wanted) {
    log_warning("the KV memory holds less than the context",
                {{"max_model_len", fits}, {"wanted", wanted}, {"kv_blocks", runner.kv_blocks()}});
  }
  return fits;
}

scheduler::BatcherLimits batcher_limits(const EngineOptions& options, const Runner& runner) {
  return {.blocks = runner.kv_blocks(),
          .block_tokens = kv::kBlockTokens,
          .rows_per_pass = runner.max_rows(),
          .logit_rows_per_pass = runner.max_logit_rows(),
          .chunk_rows_beside_decodes = options.chunk_rows_beside_decodes,
          .max_running = options.max_running,
          .max_waiting = options.max_waiting};
}

}  // namespace

Result<std::unique_ptr<LoopEngine>> LoopEngine::create(const EngineOptions& options, model::Model* model,
                                                       const text::Tokenizer* tokenizer, ThreadPool* pool) {
  LYNX_TRY(auto runner, ModelRunner::create(model, {.kv_memory_bytes = options.kv_memory_bytes}));
  TokenText token_text = [tokenizer](std::int32_t id) {
    return tokenizer->is_control(id) ? std::string_view{} : tokenizer->token_bytes(id);
  };
  return create(options, std::move(runner), std::move(token_text), pool);
}

Result<std::unique_ptr<LoopEngine>> LoopEngine::create(const EngineOptions& options, std::unique_ptr<Runner> runner,
                                                       TokenText token_text, ThreadPool* pool) {
  LYNX_TRY(const int max_model_len, choose_max_model_len(options, *runner));
  const scheduler::BatcherLimits limits = batcher_limits(options, *runner);
  if (const int most = std::min(limits.rows_per_pass, limits.logit_rows_per_pass); options.max_running > most) {
    log_warning("max-running is lowered to what one pass can decode", {{"max_running", most}, {"wanted", options.max_running}});
  }
  auto loop = std::make_unique<EngineLoop>(limits, max_model_len, std::move(runner), std::move(token_text), pool, options);
  return std::unique_ptr<LoopEngine>(new LoopEngine(std::move(loop)));
}

LoopEngine::LoopEngine(std::unique_ptr<EngineLoop> loop) : loop_(std::move(loop)) {}
LoopEngine::~LoopEngine() = default;

Status LoopEngine::submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) {
  return loop_->submit(std::move(request), std::move(sink));
}

void LoopEngine::cancel(std::string_view request_id) {
  loop_->intake().cancel(request_id);
}

void LoopEngine::begin_drain() {
  loop_->intake().begin_drain();
}

EngineStats LoopEngine::stats() const {
  return loop_->intake().stats();
}

int LoopEngine::max_model_len() const {
  return loop_->max_model_len();
}

}  // namespace lynx::server
