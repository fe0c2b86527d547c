// The prefill node's part of a run with remote prompts: first tokens and caches come when they like, in either order.

#include <algorithm>

#include "tests/scheduler/batcher_simulation.h"

namespace lynx::scheduler {

void BatcherSimulation::remote_progress() {
  std::vector<RequestId> awaiting;
  for (const auto& [id, live] : live_) {
    if (live.awaiting && upto(4) == 0) awaiting.push_back(id);
  }
  for (const RequestId id : awaiting) {
    first_tokens(id);
    if (live_.count(id) > 0 && upto(2) == 0) cache_arrives(id);
  }
}

void BatcherSimulation::first_tokens(RequestId id) {
  const int choices = live_.at(id).shape.choices;
  for (int c = 0; c < choices; ++c) {
    if (live_.count(id) == 0) break;
    const Choice& choice = live_.at(id).choices[static_cast<std::size_t>(c)];
    if (!choice.ended && choice.generated == 0) choose_token(id, c);
  }
  if (live_.count(id) == 0) ++coverage_->ended_before_arrival;
}

void BatcherSimulation::cache_arrives(RequestId id) {
  Live& live = live_.at(id);
  live.awaiting = false;
  batcher_.prompt_arrived(id);
  check(batcher_.state(id) == RequestState::kDecoding, "the cache is there, but it does not decode");
  ++coverage_->arrived;
  for (int c = 0; c < live.shape.choices; ++c) {
    Choice& choice = live.choices[static_cast<std::size_t>(c)];
    choice.computed = live.shape.prompt_tokens;
    if (c == live.holder || choice.ended) continue;
    blocks_.fork({id, live.holder}, {id, c});
    ++coverage_->forks;
  }
  for (int c = 0; c < live.shape.choices; ++c) {
    if (live.choices[static_cast<std::size_t>(c)].ended) release({id, c});
  }
}

// Everything that runs waits for a cache: there may be no pass.
bool BatcherSimulation::only_awaits() const {
  return remote_ &&
         std::all_of(live_.begin(), live_.end(), [](const auto& entry) { return entry.second.awaiting || !entry.second.running; });
}

}  // namespace lynx::scheduler
