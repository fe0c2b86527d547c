#include "server/engine_loop.h"

#include <utility>

#include "common/log.h"
#include "model/model.h"

namespace lynx::server {
namespace {

using scheduler::PassItem;
using scheduler::PassKind;
using scheduler::RequestId;

double seconds_since(Clock::time_point start, Clock::time_point now) {
  return std::chrono::duration<double>(now - start).count();
}

/// Hands the model's word that a layer is stored on to the transfer.
class StoredLayers final : public model::LayerObserver {
 public:
  StoredLayers(PromptTransfer* transfer, std::span<const PassItem> pass) : transfer_(transfer), pass_(pass) {}
  void on_layer_stored(int layer) override { transfer_->layer_stored(layer, pass_); }

 private:
  PromptTransfer* transfer_;
  std::span<const PassItem> pass_;
};

bool completes_prompt(const PassItem& item, const Generation& generation) {
  return item.kind == PassKind::kPrefill && item.start + item.count == generation.prompt_tokens();
}

}  // namespace

EngineLoop::EngineLoop(const scheduler::BatcherLimits& limits, int max_model_len, std::unique_ptr<Runner> runner,
                       TokenText token_text, ThreadPool* pool, const EngineOptions& options)
    : max_model_len_(max_model_len),
      runner_(std::move(runner)),
      token_text_(std::move(token_text)),
      observer_(options.observer),
      transfer_(options.transfer),
      default_mode_(options.mode),
      default_gap_(options.gap),
      intake_(limits, transfer_ != nullptr && transfer_->brings_prompts()),
      blocks_(limits.blocks),
      reader_(runner_->vocabulary(), pool),
      logits_(static_cast<std::size_t>(limits.logit_rows_per_pass) * static_cast<std::size_t>(runner_->vocabulary())),
      draft_budget_(options.most_drafts),
      thread_([this] { run(); }) {}  // Last: the thread finds everything in its place.

EngineLoop::~EngineLoop() {
  intake_.stop();
  thread_.join();
}

Status EngineLoop::submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) {
  LYNX_TRY(auto generation, make_generation(std::move(request), std::move(sink), runner_->end_tokens(), runner_->vocabulary(),
                                            max_model_len_, &blocks_));
  return intake_.submit(std::move(generation));
}

void EngineLoop::run() {
  if (transfer_ != nullptr) {
    transfer_->connect_engine([this](TransferEvent event) { intake_.post(std::move(event)); });
  }
  for (;;) {
    EngineIntake::Work work = intake_.wait(blocked_);
    const bool stop = work.stop;
    take_in(std::move(work));
    if (stop) break;
    step();
  }
  fail_all({Code::kUnavailable, "the engine is shutting down"});
}

void EngineLoop::take_in(EngineIntake::Work work) {
  add(std::move(work.arrived));
  for (const RequestId id : work.cancelled) fail(id, {Code::kCancelled, "the request was cancelled"});
  for (TransferEvent& event : work.transfers) take_transfer_event(std::move(event));
}

void EngineLoop::add(std::vector<std::unique_ptr<Generation>> arrived) {
  for (auto& generation : arrived) {
    log_debug("request queued", {{"request_id", generation->request.request_id}, {"prompt_tokens", generation->prompt_tokens()}});
    generations_.emplace(generation->id, std::move(generation));
  }
}

void EngineLoop::step() {
  auto [arrived, step] = intake_.plan();
  add(std::move(arrived));
  for (const auto& [id, choice] : step.take_back) {
    Generation& generation = *generations_.at(id);
    generation.at(choice).blocks.truncate(generation.known_tokens(choice));
  }
  for (const RequestId id : step.preempt) preempt(*generations_.at(id));
  Status status;
  for (std::size_t i = 0; i < step.admit.size() && status.ok(); ++i) status = admit(*generations_.at(step.admit[i]));
  if (status.ok() && !step.pass.empty()) status = compute(step.pass);
  blocked_ = step.pass.empty() && step.preempt.empty() && step.admit.empty();
  if (status.ok() && blocked_ && transfer_ == nullptr && !generations_.empty()) {
    status = internal_error("no live request can run");  // Blocks are released at once here: there is nothing to wait for.
  }
  if (!status.ok()) fail_all(status);
}

Status EngineLoop::admit(Generation& generation) {
  if (!generation.times.admitted) generation.times.admitted = Clock::now();
  log_debug("request admitted", {{"request_id", generation.request.request_id}, {"preemptions", generation.preemptions}});
  // The prompt's blocks are counted as taken from now on, so take them: the first live choice computes the prompt for all.
  for (GenerationChoice& choice : generation.choices) {
    if (choice.finish) continue;
    if (!choice.blocks.reserve(generation.prompt_tokens())) {
      return internal_error("the KV cache has fewer free blocks than were counted");
    }
    if (transfer_ != nullptr) {
      generation.in_transfer = true;
      transfer_->begin(generation, choice.blocks.blocks());
    }
    break;
  }
  return {};
}

void EngineLoop::preempt(Generation& generation) {
  ++generation.preemptions;
  intake_.add_totals({.preemptions = 1});
  log_debug("request preempted", {{"request_id", generation.request.request_id}, {"preemptions", generation.preemptions}});
  let_go(generation, {Code::kCancelled, "the request was preempted"});
  emit(generation.id);  // Its drafts are none any more.
}

// Gives all blocks of a request back, at once or when its transfer is over.
void EngineLoop::let_go(Generation& generation, const Status& why) {
  drop_drafts(generation);
  if (std::exchange(generation.in_transfer, false)) {
    std::vector<kv::BlockTable>& kept = retained_[generation.id];
    for (GenerationChoice& choice : generation.choices) kept.push_back(std::move(choice.blocks));
    transfer_->end(generation.id, why);
    return;
  }
  for (GenerationChoice& choice : generation.choices) choice.blocks.truncate(0);
  intake_.with_batcher([&](scheduler::Batcher& batcher) {
    for (int choice = 0; choice < generation.request.choices; ++choice) batcher.released({generation.id, choice});
  });
}

Status EngineLoop::compute(std::span<const PassItem> pass) {
  taken_.clear();
  for (const PassItem& item : pass) {  // Drafts that are not in it are given up.
    if (item.kind != PassKind::kVerify) continue;
    generations_.at(item.sequence.request)->keep_drafts(item.sequence.choice, item.count - 1);
  }
  LYNX_RETURN_IF_ERROR(builder_.build(pass, generations_, *runner_));
  const Clock::time_point start = Clock::now();
  model::ForwardBatch batch = builder_.batch();
  StoredLayers stored(transfer_, pass);
  if (transfer_ != nullptr && !transfer_->brings_prompts()) batch.observer = &stored;
  runner_->forward(batch, logits_.data());
  if (observer_ != nullptr) observer_->on_pass(builder_.rows(), seconds_since(start, Clock::now()));

  std::vector<LogitReading> readings = list_readings(pass, generations_);
  reader_.read(readings, logits_.data());
  share_prompts(pass);
  take_results(readings);
  LYNX_RETURN_IF_ERROR(settle(pass));
  for (const PassItem& item : pass) emit(item.sequence.request);
  return {};
}

// A complete prompt is shared by all live choices; what they write next is copied first where it is shared.
void EngineLoop::share_prompts(std::span<const PassItem> pass) {
  for (const PassItem& item : pass) {
    Generation& generation = *generations_.at(item.sequence.request);
    if (!completes_prompt(item, generation)) continue;
    log_debug("request decoding", {{"request_id", generation.request.request_id}});
    const kv::BlockTable& prompt = generation.at(item.sequence.choice).blocks;
    if (transfer_ == nullptr && generation.request.max_tokens > 0) {
      const TransferMode mode = generation.request.transfer.value_or(default_mode_);
      generation.receipt.verified = full_view(mode);
      runner_->complete_prompt(prompt.blocks(), generation.prompt_tokens(), mode);
    }
    for (int choice = item.sequence.choice + 1; choice < generation.request.choices; ++choice) {
      if (!generation.at(choice).finish) generation.at(choice).blocks = prompt.fork(generation.prompt_tokens());
    }
    if (generation.request.max_tokens > 0) continue;
    first_output(generation, Clock::now());
    for (GenerationChoice& choice : generation.choices) choice.finish_with(FinishReason::kLength);
  }
}

void EngineLoop::first_output(Generation& generation, Clock::time_point now) {
  generation.times.first_token = now;
  intake_.add_totals({.prompt_tokens = generation.request.prompt.size()});
}

void EngineLoop::take_results(std::span<LogitReading> readings) {
  const Clock::time_point now = Clock::now();
  for (LogitReading& reading : readings) {
    if (reading.scored_position >= 0) {
      reading.generation->prompt_scores.push_back(std::move(reading.output));
    } else if (reading.draft) {
      reading.generation->add_draft(reading.choice, reading.output.id, token_text_(reading.output.id));
    } else {
      take_if_verified(reading, now);
    }
  }
}

void EngineLoop::take_token(Generation& generation, int index, TokenOutput token, Clock::time_point now) {
  GenerationChoice& choice = generation.at(index);
  if (!generation.times.first_token) {
    first_output(generation, now);
    if (observer_ != nullptr) observer_->on_first_token(seconds_since(generation.times.submitted, now));
  } else if (!choice.tokens.empty()) {
    if (!generation.times.second_token) generation.times.second_token = now;
    if (observer_ != nullptr) observer_->on_next_token(seconds_since(choice.last_token_at, now));
  }
  choice.last_token_at = now;
  const std::string_view bytes = token_text_(token.id);
  generation.add_token(index, std::move(token), bytes);
}

// Tells the batcher how the pass went (that a choice ended may be said again: it is ignored), and holds its counts against the
// pool. Blocks that a transfer reads stay.
Status EngineLoop::settle(std::span<const PassItem> pass) {
  EngineIntake::Totals totals;
  for (const PassItem& item : pass) {
    Generation& generation = *generations_.at(item.sequence.request);
    for (GenerationChoice& choice : generation.choices) {
      if (choice.finish && !generation.in_transfer) choice.blocks.truncate(0);
    }
  }
  const int counted = intake_.with_batcher([&](scheduler::Batcher& batcher) {
    batcher.pass_completed();
    totals.generation_tokens = taken_.size();
    for (const scheduler::SequenceId& sequence : taken_) batcher.token_added(sequence);
    settle_drafts(pass, batcher, &totals);
    for (const PassItem& item : pass) {
      const Generation& generation = *generations_.at(item.sequence.request);
      for (int choice = 0; choice < generation.request.choices; ++choice) {
        if (!generation.at(choice).finish) continue;
        batcher.choice_ended({generation.id, choice});
        if (!generation.in_transfer) batcher.released({generation.id, choice});
      }
    }
    return batcher.free_blocks();
  });
  intake_.add_totals(totals);
  return counted == blocks_.free_count() ? Status{} : internal_error("the KV blocks in use differ from those counted");
}

void EngineLoop::emit(RequestId id) {
  const auto it = generations_.find(id);
  if (it == generations_.end()) return;  // Ended with an earlier item of this pass.
  std::optional<GenerationUpdate> update = it->second->take_update();
  if (!update) return;
  if (update->finished) {
    end(id, std::move(*update));
  } else {
    it->second->sink->on_update(std::move(*update));
  }
}

void EngineLoop::fail(RequestId id, const Status& why) {
  const auto it = generations_.find(id);
  if (it == generations_.end()) return;  // It ended before the cancellation came.
  intake_.with_batcher([&](scheduler::Batcher& batcher) { batcher.failed(id); });
  end(id, {.prompt_tokens = {}, .choices = {}, .usage = it->second->usage(), .finished = true, .error = why});
}

void EngineLoop::fail_all(const Status& why) {
  if (why.code() == Code::kInternal) log_error("engine failure", {{"reason", why.message()}});
  intake_.with_batcher([](scheduler::Batcher& batcher) { batcher.pass_completed(); });
  while (!generations_.empty()) fail(generations_.begin()->first, why);
}

// The last update. Whatever the request held is released (or waits for its transfer's end), and its id is free, before the client
// hears of it.
void EngineLoop::end(RequestId id, GenerationUpdate last) {
  const std::unique_ptr<Generation> generation = std::move(generations_.extract(id).mapped());
  let_go(*generation, last.error);
  intake_.forget(generation->request.request_id);
  const RequestReport report = generation->report(last.error, Clock::now());
  log_request_end(report);
  if (observer_ != nullptr) observer_->on_request_end(report);
  generation->sink->on_update(std::move(last));
}

}  // namespace lynx::server
