#include "tests/server/http_fake_engine.h"

#include <algorithm>
#include <utility>

namespace lynx::server::testing {

FakeEngine::FakeEngine(int max_model_len) : max_model_len_(max_model_len), thread_([this] { run(); }) {}

FakeEngine::~FakeEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<GenerationUpdate> FakeEngine::repeat_prompt(const GenerateRequest& request) {
  std::vector<GenerationUpdate> updates;
  const auto length = static_cast<int>(request.prompt.size());
  const int tokens = std::min(request.max_tokens, length);
  Usage usage{.prompt_tokens = length};
  for (int i = 0; i < std::max(tokens, 1); ++i) {
    GenerationUpdate update;
    if (i == 0 && request.prompt_top_logprobs >= 0) {
      for (const std::int32_t id : request.prompt) {
        update.prompt_tokens.push_back({.id = id, .logprob = -0.5F, .top = {{id, -0.5F}, {0, -2.0F}}});
      }
    }
    for (int choice = 0; choice < request.choices; ++choice) {
      ChoiceUpdate& part = update.choices.emplace_back();
      part.choice = choice;
      if (i < tokens) {
        const std::int32_t id = request.prompt[static_cast<std::size_t>(i)];
        part.text = id < 128 ? std::string(1, static_cast<char>(id)) : "?";
        part.tokens.push_back({.id = id, .logprob = -0.25F, .top = {}});
        if (request.top_logprobs > 0) part.tokens.back().top = {{id, -0.25F}, {1, -3.0F}};
        part.text_offsets.push_back(i);
        ++usage.completion_tokens;
      }
      if (i + 1 >= tokens) part.finish = tokens < request.max_tokens ? FinishReason::kStop : FinishReason::kLength;
    }
    update.usage = usage;
    update.finished = i + 1 >= tokens;
    updates.push_back(std::move(update));
  }
  return updates;
}

Status FakeEngine::submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) {
  {
    const std::lock_guard lock(mutex_);
    if (!next_failure_.ok()) return std::exchange(next_failure_, Status{});
    if (draining_) return {Code::kUnavailable, "draining"};
    ++submitted_total_;
    last_request_ = request;
    live_[request.request_id] = {script_(request), 0, std::move(sink), false};
  }
  changed_.notify_all();
  return {};
}

void FakeEngine::cancel(std::string_view request_id) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(request_id);
    if (it == live_.end()) return;
    it->second.cancelled = true;
  }
  changed_.notify_all();
}

void FakeEngine::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<std::pair<std::shared_ptr<UpdateSink>, GenerationUpdate>> calls;
    const bool stepping = steps_ > 0;
    if (stepping) --steps_;
    for (auto it = live_.begin(); it != live_.end();) {
      Live& live = it->second;
      if (live.cancelled) {
        GenerationUpdate last;
        last.finished = true;
        last.error = {Code::kCancelled, "cancelled"};
        calls.emplace_back(live.sink, std::move(last));
        ++cancelled_total_;
        it = live_.erase(it);
        continue;
      }
      if (!paused_ || stepping) {
        calls.emplace_back(live.sink, live.updates[live.next++]);
        if (live.next == live.updates.size()) {
          it = live_.erase(it);
          continue;
        }
      }
      ++it;
    }
    if (calls.empty()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    for (auto& [sink, update] : calls) sink->on_update(std::move(update));
    lock.lock();
  }
}

void FakeEngine::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

EngineStats FakeEngine::stats() const {
  const std::lock_guard lock(mutex_);
  const auto live = static_cast<int>(live_.size());
  return {.waiting = paused_ ? live : 0,
          .running = paused_ ? 0 : live,
          .free_blocks = 100 - live,
          .total_blocks = 100,
          .draining = draining_};
}

void FakeEngine::set_script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeEngine::pause(bool paused) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  changed_.notify_all();
}

void FakeEngine::step(int updates) {
  {
    const std::lock_guard lock(mutex_);
    steps_ += updates;
  }
  changed_.notify_all();
}

void FakeEngine::fail_next_submit(Status status) {
  const std::lock_guard lock(mutex_);
  next_failure_ = std::move(status);
}

int FakeEngine::live() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(live_.size());
}

int FakeEngine::cancelled_total() const {
  const std::lock_guard lock(mutex_);
  return cancelled_total_;
}

int FakeEngine::submitted_total() const {
  const std::lock_guard lock(mutex_);
  return submitted_total_;
}

GenerateRequest FakeEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_request_;
}

}  // namespace lynx::server::testing
