#pragma once

// The engine over one model: alone it is --aggregated, prefill and decode in one process; with a PromptTransfer it is one half of a
// pair.

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "device/thread_pool.h"
#include "model/model.h"
#include "server/engine.h"
#include "server/engine_runner.h"
#include "server/prompt_transfer.h"
#include "text/tokenizer.h"

namespace lynx::server {

class EngineLoop;

struct EngineOptions {
  std::int64_t kv_memory_bytes = std::int64_t{2} << 30;
  int max_model_len = 0;   ///< 0: the model's context. Never above what the KV memory holds.
  int max_running = 64;    ///< Sequences (choices) at once.
  int max_waiting = 1024;  ///< Queued requests before new ones are refused.
  /// Prompt tokens of a pass that also decodes: bounds the pause between tokens. A prompt of 2,000 tokens beside a decode took the
  /// same time with 64 … 512 (SmolLM2-135M, two cores), while the longest pause grew from 1 to 5 with it.
  int chunk_rows_beside_decodes = 128;
  EngineObserver* observer = nullptr;  ///< Not owned; outlives the engine.
  PromptTransfer* transfer = nullptr;  ///< Same. Null: prompts are computed and used here.
  /// Where a request does not say. Without a transfer: the view on which prompts are decoded.
  TransferMode mode = kDefaultTransferMode;
  GapMode gap = GapMode::kDraft;
  int most_drafts = 64;  ///< Of a choice, between Anchors and Residuals.
};

class LoopEngine final : public Engine {
 public:
  /// Allocates the KV cache and starts the engine's thread. What is pointed to is not owned and must outlive the engine; `model`
  /// and `pool` are the engine's alone from now on. RESOURCE_EXHAUSTED when the KV memory cannot be had or holds no block;
  /// INVALID_ARGUMENT naming max-model-len when that is beyond the model's context.
  static Result<std::unique_ptr<LoopEngine>> create(const EngineOptions& options, model::Model* model,
                                                    const text::Tokenizer* tokenizer, ThreadPool* pool);

  /// The same over any runner, whose KV blocks are its own; `kv_memory_bytes` is not looked at.
  static Result<std::unique_ptr<LoopEngine>> create(const EngineOptions& options, std::unique_ptr<Runner> runner,
                                                    TokenText token_text, ThreadPool* pool);

  /// Ends after the pass under way; live requests fail with UNAVAILABLE.
  ~LoopEngine() override;

  Status submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) override;
  void cancel(std::string_view request_id) override;
  void begin_drain() override;
  EngineStats stats() const override;
  int max_model_len() const override;

 private:
  explicit LoopEngine(std::unique_ptr<EngineLoop> loop);
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace lynx::server
