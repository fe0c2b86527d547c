// EngineLoop's dealings with prompts that cross the network.

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "server/engine_loop.h"

namespace lynx::server {

using scheduler::RequestId;

void EngineLoop::take_transfer_event(TransferEvent event) {
  switch (event.kind) {
    case TransferEvent::Kind::kFirstTokens: return take_first_tokens(std::move(event));
    case TransferEvent::Kind::kAnchored: return anchored(std::move(event));
    case TransferEvent::Kind::kAnchorsLost: return anchors_lost(event.request);
    case TransferEvent::Kind::kArrived: return prompt_arrived(event);
    case TransferEvent::Kind::kReleased: return transfer_released(event.request);
    case TransferEvent::Kind::kFailed: return transfer_failed(event.request, event.why);
  }
}

void EngineLoop::transfer_failed(RequestId id, const Status& why) {
  const auto it = generations_.find(id);
  if (it != generations_.end() && it->second->in_transfer) fail(id, why);  // Else it was preempted at that moment, and tries again.
}

void EngineLoop::take_first_tokens(TransferEvent event) {
  const auto it = generations_.find(event.request);
  if (it == generations_.end() || !it->second->in_transfer) return;
  Generation& generation = *it->second;
  generation.receipt.transfer = event.mode;
  generation.receipt.verified = full_view(event.mode);
  if (generation.scores_prompt() && generation.prompt_scores.size() == 1) {
    for (TokenOutput& score : event.prompt_scores) generation.prompt_scores.push_back(std::move(score));
  }
  for (std::size_t i = 0; i < event.first_tokens.size(); ++i) {
    const Status status = take_first_token(generation, static_cast<int>(i), std::move(event.first_tokens[i]), event.same_numerics);
    if (!status.ok()) return fail(event.request, status);
  }
  if (generation.request.max_tokens == 0) {
    first_output(generation, Clock::now());
    for (GenerationChoice& choice : generation.choices) choice.finish_with(FinishReason::kLength);
  }
  intake_.with_batcher([&](scheduler::Batcher& batcher) {
    for (int choice = 0; choice < generation.request.choices; ++choice) {
      if (generation.at(choice).finish) batcher.choice_ended({generation.id, choice});
    }
  });
  emit(event.request);
}

// A token that is known already (the prompt was asked for again after a preemption or a node's death) must come out the same,
// unless one of the two was chosen with other numerics than ours.
Status EngineLoop::take_first_token(Generation& generation, int choice, TokenOutput token, bool same_numerics) {
  const std::vector<std::int32_t>& known = generation.at(choice).tokens;
  if (known.empty()) {
    generation.own_numerics = same_numerics;
    intake_.with_batcher([&](scheduler::Batcher& batcher) { batcher.token_added({generation.id, choice}); });
    intake_.add_totals({.generation_tokens = 1});
    take_token(generation, choice, std::move(token), Clock::now());
    return {};
  }
  if (known.front() == token.id) return {};
  if (!same_numerics || !generation.own_numerics) {
    log_warning("prefill nodes of different numerics disagree about a first token; the committed one stays",
                {{"request_id", generation.request.request_id}, {"committed", known.front()}, {"now", token.id}});
    return {};
  }
  return internal_error(
      fmt::format("prefill nodes disagree about the first token: {} was committed, now it is {}", known.front(), token.id));
}

void EngineLoop::prompt_arrived(const TransferEvent& event) {
  const RequestId id = event.request;
  const auto it = generations_.find(id);
  if (it == generations_.end()) {
    return transfer_released(id);  // It ended at the moment when its cache became complete.
  }
  Generation& generation = *it->second;
  if (!std::exchange(generation.in_transfer, false)) return transfer_released(id);  // Preempted at that moment.
  log_debug("request decoding", {{"request_id", generation.request.request_id}});
  if (!generation.times.arrived) generation.times.arrived = Clock::now();
  generation.receipt.transfer = event.mode;
  generation.receipt.verified = full_view(event.mode);
  generation.receipt.first_bytes += event.bytes.units;
  generation.receipt.residual_bytes += event.bytes.residuals;
  generation.profile.reset();
  share_arrived_prompt(generation);
  for (GenerationChoice& choice : generation.choices) {
    if (choice.finish) choice.blocks.truncate(0);
  }
  intake_.with_batcher([&](scheduler::Batcher& batcher) {
    batcher.prompt_arrived(id);
    for (int choice = 0; choice < generation.request.choices; ++choice) {
      if (generation.at(choice).finish) batcher.released({id, choice});
    }
  });
}

void EngineLoop::transfer_released(RequestId id) {
  const auto it = retained_.find(id);
  if (it == retained_.end()) return;
  const int choices = static_cast<int>(it->second.size());
  retained_.erase(it);
  intake_.with_batcher([&](scheduler::Batcher& batcher) {
    for (int choice = 0; choice < choices; ++choice) batcher.released({id, choice});
  });
}

}  // namespace lynx::server
