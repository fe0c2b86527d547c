#pragma once

// The seam between an engine and what moves prompts' KV caches. At a decode node prompts come from elsewhere (brings_prompts), at a
// prefill node they are computed here and go elsewhere. The engine calls it on its own thread; answers come back as TransferEvents.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "kv/block_pool.h"
#include "quant/plane_profile.h"
#include "scheduler/batcher.h"
#include "server/engine.h"
#include "transport/transfer_receiver.h"

namespace lynx::server {

struct Generation;

/// What happened to the transfer of one request. After begin(), exactly one of kArrived and kReleased is the last event.
struct TransferEvent {
  enum class Kind {
    kFirstTokens,  ///< The prefill node chose the first token of every choice.
    kAnchored,     ///< All Anchors of the cache are there, Residuals are not.
    kAnchorsLost,  ///< They will be overwritten once anchors_let_go() answers.
    kArrived,      ///< The prompt's cache is complete in the request's blocks; the first tokens came before.
    kReleased,     ///< Nothing reads or writes the request's blocks any more. Answers end().
    kFailed,       ///< No cache will come.
  };
  Kind kind = Kind::kReleased;
  scheduler::RequestId request = 0;
  Status why{};                              ///< kFailed.
  std::vector<TokenOutput> first_tokens{};   ///< [choice]; nothing where max_tokens is 0.
  std::vector<TokenOutput> prompt_scores{};  ///< Of positions 1 …, where they were asked for.
  bool same_numerics = true;                 ///< The prefill node's numerics fingerprint is ours: its tokens must be ours.
  std::shared_ptr<const quant::PlaneProfile> profile{};  ///< kAnchored: of the Anchors, never null.
  TransferMode mode = kDefaultTransferMode;              ///< kFirstTokens, kAnchored, kArrived.
  transport::TransferBytes bytes{};                      ///< kArrived.
};

class PromptTransfer {
 public:
  virtual ~PromptTransfer() = default;

  virtual bool brings_prompts() const = 0;

  /// Where events go; called once before begin(). `post` may be called by any thread while the engine lives: whoever owns both
  /// stops the transfer's threads first.
  virtual void connect_engine(std::function<void(TransferEvent)> post) = 0;

  /// The request was admitted, and these blocks hold its prompt, or will. They stay until kReleased or kArrived.
  virtual void begin(const Generation& generation, std::span<const kv::BlockId> blocks) = 0;

  /// K and V of all rows of `pass` are stored in `layer`. Prefill node only.
  virtual void layer_stored(int layer, std::span<const scheduler::PassItem> pass) = 0;

  /// The engine is done with the request: it ended (`why` is OK), failed or was cancelled (`why` says so) or gave up its blocks
  /// (CANCELLED).
  virtual void end(scheduler::RequestId id, const Status& why) = 0;

  /// Answers kAnchorsLost: nobody reads the request's Anchors. Decode node only.
  virtual void anchors_let_go(scheduler::RequestId /*id*/) {}
};

}  // namespace lynx::server
