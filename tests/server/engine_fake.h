#pragma once

// A deterministic stand-in for the model behind the engine, and what the tests of the engine share. The stand-in reads every
// position through the block tables, so that a wrong, shared or stale block changes the text.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine.h"
#include "server/engine_runner.h"
#include "server/loop_engine.h"

namespace lynx::server {

/// Tokens whose texts are made to be difficult: pieces of characters, of stop strings, bytes that are never UTF-8, control tokens.
const std::vector<std::string>& fake_token_texts();
inline constexpr std::int32_t kFakeEndToken = 0;
int fake_vocabulary();
TokenText fake_token_text();

/// Logits that depend on every token of the sequence and nothing else.
std::vector<float> fake_logits(std::span<const std::int32_t> tokens);

struct FakeSizes {
  int context = 512;
  int kv_blocks = 64;
  int max_rows = 64;
  int max_logit_rows = 16;
};

class FakeRunner final : public Runner {
 public:
  /// `before_pass` is called with each batch before it is computed (on the engine's thread); it may block.
  explicit FakeRunner(FakeSizes sizes, std::function<void(const model::ForwardBatch&)> before_pass = {});

  int vocabulary() const override { return fake_vocabulary(); }
  int context() const override { return sizes_.context; }
  const std::vector<std::int32_t>& end_tokens() const override { return end_tokens_; }
  int kv_blocks() const override { return sizes_.kv_blocks; }
  int max_rows() const override { return sizes_.max_rows; }
  int max_logit_rows() const override { return sizes_.max_logit_rows; }
  void forward(const model::ForwardBatch& batch, float* logits) override;
  void complete_prompt(std::span<const kv::BlockId> blocks, int tokens, TransferMode mode) override;
  void copy_block(kv::BlockId from, kv::BlockId to) override;

  /// The tokens whose "KV" a block holds [64]. Any thread that may use the block.
  std::span<std::int32_t> block(kv::BlockId id) {
    return std::span(memory_).subspan(static_cast<std::size_t>(id) * kv::kBlockTokens, kv::kBlockTokens);
  }

 private:
  void check(const model::ForwardBatch& batch) const;

  FakeSizes sizes_;
  std::function<void(const model::ForwardBatch&)> before_pass_;
  std::vector<std::int32_t> end_tokens_{kFakeEndToken};
  std::vector<std::int32_t> memory_;  ///< [block][64] token ids.
};

/// What a request got, joined over its updates. Broken promises of UpdateSink are noted in `broken`.
struct Collected {
  struct Choice {
    std::string text;
    std::vector<TokenOutput> tokens;
    std::vector<std::int32_t> offsets;
    std::optional<FinishReason> finish;
  };
  std::vector<TokenOutput> prompt_tokens;
  std::vector<Choice> choices;
  Usage usage;
  Status error;
  bool finished = false;
  int updates = 0;
  std::string broken;
};

class CollectingSink final : public UpdateSink {
 public:
  explicit CollectingSink(int choices) { collected_.choices.resize(static_cast<std::size_t>(choices)); }
  void on_update(GenerationUpdate update) override;
  /// Waits for the last update.
  Collected wait();
  /// Waits until `tokens` tokens came, over all choices, or the end.
  void wait_for_tokens(int tokens);

  std::function<void(const GenerationUpdate&)> on_each;  ///< Set before submitting.

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Collected collected_;
  int tokens_ = 0;
};

/// Lets passes go on one by one or freely; a closed gate holds the engine's thread in the next pass.
class PassGate {
 public:
  void enter();         ///< The engine's thread.
  void wait_entered();  ///< Until a pass stands at the gate.
  void open();          ///< For good.
  void let_one_pass();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int allowed_ = 0;
  bool entered_ = false;
};

/// An engine over a FakeRunner; fails the test when it cannot be made.
std::unique_ptr<LoopEngine> make_fake_engine(const EngineOptions& options, FakeSizes sizes, ThreadPool* pool,
                                             std::function<void(const model::ForwardBatch&)> before_pass = {});

}  // namespace lynx::server
