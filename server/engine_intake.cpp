#include "server/engine_intake.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

namespace lynx::server {

Status EngineIntake::submit(std::unique_ptr<Generation> generation) {
  GenerateRequest& request = generation->request;
  scheduler::RequestShape shape{.prompt_tokens = generation->prompt_tokens(),
                                .choices = request.choices,
                                .max_tokens = request.max_tokens,
                                .score_prompt = generation->scores_prompt(),
                                .remote_prompt = remote_prompts_};
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return {Code::kUnavailable, "the engine is draining and takes no new requests"};
    if (live_.count(request.request_id) > 0) {
      return invalid_argument(fmt::format("request_id '{}' is in use by a live request", request.request_id));
    }
    if (request.fit_max_tokens && request.max_tokens > 0) {
      // At least one token: if that does not fit either, the batcher says why.
      request.max_tokens = shape.max_tokens = std::max(1, batcher_.largest_max_tokens(shape));
    }
    LYNX_RETURN_IF_ERROR(batcher_.submit(next_id_, shape));
    generation->id = next_id_++;
    live_.emplace(request.request_id, generation->id);
    incoming_.arrived.push_back(std::move(generation));
  }
  changed_.notify_one();
  return {};
}

void EngineIntake::cancel(std::string_view request_id) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(std::string(request_id));
    if (it == live_.end()) return;
    incoming_.cancelled.push_back(it->second);
  }
  changed_.notify_one();
}

void EngineIntake::post(TransferEvent event) {
  {
    const std::lock_guard lock(mutex_);
    incoming_.transfers.push_back(std::move(event));
  }
  changed_.notify_one();
}

void EngineIntake::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void EngineIntake::stop() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    incoming_.stop = true;
  }
  changed_.notify_one();
}

EngineStats EngineIntake::stats() const {
  const std::lock_guard lock(mutex_);
  return {.waiting = batcher_.waiting(),
          .running = batcher_.running(),
          .free_blocks = batcher_.free_blocks(),
          .total_blocks = batcher_.limits().blocks,
          .prompt_tokens_total = totals_.prompt_tokens,
          .generation_tokens_total = totals_.generation_tokens,
          .preemptions_total = totals_.preemptions,
          .drafted_tokens_total = totals_.drafted,
          .accepted_tokens_total = totals_.accepted,
          .draft_acceptance = totals_.draft_acceptance,
          .draining = draining_};
}

EngineIntake::Work EngineIntake::wait(bool only_for_news) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool news = incoming_.stop || !incoming_.arrived.empty() || !incoming_.cancelled.empty() || !incoming_.transfers.empty();
    return news || (!only_for_news && !batcher_.idle());
  });
  return std::exchange(incoming_, {});
}

EngineIntake::Plan EngineIntake::plan() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(incoming_.arrived, {}), batcher_.next()};
}

void EngineIntake::forget(const std::string& request_id) {
  const std::lock_guard lock(mutex_);
  live_.erase(request_id);
}

void EngineIntake::add_totals(const Totals& more) {
  const std::lock_guard lock(mutex_);
  totals_.prompt_tokens += more.prompt_tokens;
  totals_.generation_tokens += more.generation_tokens;
  totals_.preemptions += more.preemptions;
  totals_.drafted += more.drafted;
  totals_.accepted += more.accepted;
  if (more.draft_acceptance > 0) totals_.draft_acceptance = more.draft_acceptance;
}

}  // namespace lynx::server
