#pragma once

// The half of an engine that any thread may touch: requests and cancellations come in here, the engine's thread sleeps here while
// there is nothing to do, and the batcher lives here, so that a refusal is known at once and counts are true.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scheduler/batcher.h"
#include "server/engine.h"
#include "server/generation.h"
#include "server/prompt_transfer.h"

namespace lynx::server {

class EngineIntake {
 public:
  /// What came in since the last wait(), in order.
  struct Work {
    std::vector<std::unique_ptr<Generation>> arrived;
    std::vector<scheduler::RequestId> cancelled;
    std::vector<TransferEvent> transfers;
    bool stop = false;
  };
  /// The batcher's next step, with the requests that arrived up to that moment: it may admit them already.
  struct Plan {
    std::vector<std::unique_ptr<Generation>> arrived;
    scheduler::BatcherStep step;
  };
  struct Totals {
    std::uint64_t prompt_tokens = 0;
    std::uint64_t generation_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t drafted = 0;
    std::uint64_t accepted = 0;
    double draft_acceptance = 0;  ///< Estimated now; 0: as before.
  };

  /// `remote_prompts`: all prompts are computed by another node.
  EngineIntake(scheduler::BatcherLimits limits, bool remote_prompts) : batcher_(limits), remote_prompts_(remote_prompts) {}

  // Any thread.
  Status submit(std::unique_ptr<Generation> generation);
  void cancel(std::string_view request_id);
  void post(TransferEvent event);
  void begin_drain();
  void stop();  ///< Refuses new requests, and wait() says so once more.
  EngineStats stats() const;

  // The engine's thread.

  /// Sleeps until something came in or stop(); unless `only_for_news`, not while a request is live.
  Work wait(bool only_for_news);
  Plan plan();
  /// `request_id` is free again, and late cancellations of it are ignored.
  void forget(const std::string& request_id);
  void add_totals(const Totals& more);
  /// Runs `use(Batcher&)` while nobody submits.
  template <class Use>
  auto with_batcher(Use&& use) {
    const std::lock_guard lock(mutex_);
    return use(batcher_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  scheduler::Batcher batcher_;
  const bool remote_prompts_;
  Work incoming_;
  std::unordered_map<std::string, scheduler::RequestId> live_;
  scheduler::RequestId next_id_ = 1;
  bool draining_ = false;
  Totals totals_;
};

}  // namespace lynx::server
