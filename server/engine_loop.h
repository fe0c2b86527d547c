#pragma once

// The engine's thread: takes in what arrived, asks the batcher, runs the pass, hands out what became final. It decides nothing
// itself: what runs is scheduler/'s decision, what may be shown is ChoiceOutput's.

#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "scheduler/draft_budget.h"
#include "server/engine_intake.h"
#include "server/engine_pass.h"
#include "server/engine_runner.h"
#include "server/engine_sampling.h"
#include "server/loop_engine.h"
#include "server/prompt_transfer.h"

namespace lynx::server {

class EngineLoop {
 public:
  /// Starts the thread. `pool` is not owned. The runner has at least limits.blocks KV blocks.
  EngineLoop(const scheduler::BatcherLimits& limits, int max_model_len, std::unique_ptr<Runner> runner, TokenText token_text,
             ThreadPool* pool, const EngineOptions& options);
  ~EngineLoop();

  Status submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink);
  EngineIntake& intake() { return intake_; }
  const EngineIntake& intake() const { return intake_; }
  int max_model_len() const { return max_model_len_; }

 private:
  void run();
  void take_in(EngineIntake::Work work);
  void take_transfer_event(TransferEvent event);
  void anchored(TransferEvent event);
  void anchors_lost(scheduler::RequestId id);
  static void share_arrived_prompt(Generation& generation);
  void take_first_tokens(TransferEvent event);
  Status take_first_token(Generation& generation, int choice, TokenOutput token, bool same_numerics);
  void prompt_arrived(const TransferEvent& event);
  void transfer_failed(scheduler::RequestId id, const Status& why);
  void transfer_released(scheduler::RequestId id);
  void add(std::vector<std::unique_ptr<Generation>> arrived);
  void step();
  Status admit(Generation& generation);
  void preempt(Generation& generation);
  Status compute(std::span<const scheduler::PassItem> pass);
  void share_prompts(std::span<const scheduler::PassItem> pass);
  void take_results(std::span<LogitReading> readings);
  void take_if_verified(LogitReading& reading, Clock::time_point now);
  void drop_drafts(Generation& generation);
  bool drafts_by_another(const quant::PlaneProfile& profile) const;
  void settle_drafts(std::span<const scheduler::PassItem> pass, scheduler::Batcher& batcher, EngineIntake::Totals* totals);
  void take_token(Generation& generation, int choice, TokenOutput token, Clock::time_point now);
  void first_output(Generation& generation, Clock::time_point now);
  Status settle(std::span<const scheduler::PassItem> pass);
  void emit(scheduler::RequestId id);
  void let_go(Generation& generation, const Status& why);
  void end(scheduler::RequestId id, GenerationUpdate last);
  void fail(scheduler::RequestId id, const Status& why);
  void fail_all(const Status& why);

  const int max_model_len_;
  const std::unique_ptr<Runner> runner_;
  const TokenText token_text_;
  EngineObserver* const observer_;
  PromptTransfer* const transfer_;
  const TransferMode default_mode_;
  const GapMode default_gap_;
  EngineIntake intake_;
  kv::BlockPool blocks_;                                                  // Before the tables in generations_ that refer to it.
  Generations generations_;                                               // The engine thread's, as all below.
  std::map<scheduler::RequestId, std::vector<kv::BlockTable>> retained_;  // Of ended or preempted requests, until kReleased.
  std::vector<scheduler::SequenceId> taken_;                              // Tokens of the pass under way.
  bool blocked_ = false;                                                  // Nothing can be done before news comes in.
  PassBuilder builder_;
  LogitReader reader_;
  std::vector<float> logits_;
  scheduler::DraftBudget draft_budget_;
  std::thread thread_;
};

}  // namespace lynx::server
