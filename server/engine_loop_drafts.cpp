// EngineLoop between Anchors and Residuals: tokens are drafted, and held against the complete cache later.

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "server/engine_loop.h"

namespace lynx::server {

using scheduler::PassItem;
using scheduler::PassKind;
using scheduler::RequestId;

void EngineLoop::anchored(TransferEvent event) {
  const auto it = generations_.find(event.request);
  if (it == generations_.end() || !it->second->in_transfer) return;
  Generation& generation = *it->second;
  if (!generation.times.anchored) generation.times.anchored = Clock::now();
  generation.receipt.gap = generation.request.gap.value_or(default_gap_);
  if (generation.receipt.gap == GapMode::kWait || drafts_by_another(*event.profile)) return;
  const int drafts = draft_budget_.next();
  if (drafts == 0) return;
  log_debug("request drafting", {{"request_id", generation.request.request_id}, {"most_drafts", drafts}});
  generation.profile = std::move(event.profile);
  share_arrived_prompt(generation);
  intake_.with_batcher([&](scheduler::Batcher& batcher) { batcher.anchored(event.request, drafts); });
}

// A pass reads all Anchors by one profile. With a wrong one drafts are garbage, and the budget believes that the model drafts
// badly.
bool EngineLoop::drafts_by_another(const quant::PlaneProfile& profile) const {
  return std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    const auto& used = entry.second->profile;
    return used != nullptr && *used != profile;
  });
}

void EngineLoop::anchors_lost(RequestId id) {
  const auto it = generations_.find(id);
  if (it != generations_.end()) {
    drop_drafts(*it->second);
    intake_.with_batcher([&](scheduler::Batcher& batcher) { batcher.anchors_lost(id); });
  }
  transfer_->anchors_let_go(id);
  emit(id);
}

// All choices that live share the prompt's blocks; those that do already keep theirs.
void EngineLoop::share_arrived_prompt(Generation& generation) {
  const auto holder = std::find_if(generation.choices.begin(), generation.choices.end(),
                                   [](const GenerationChoice& choice) { return !choice.blocks.blocks().empty(); });
  for (GenerationChoice& choice : generation.choices) {
    if (!choice.finish && choice.blocks.blocks().empty()) choice.blocks = holder->blocks.fork(generation.prompt_tokens());
  }
}

// The first token of a pass that differs from its draft is right, and the last one: what comes behind was chosen on a wrong prefix.
void EngineLoop::take_if_verified(LogitReading& reading, Clock::time_point now) {
  GenerationChoice& choice = reading.generation->at(reading.choice);
  if (choice.finish || choice.accepted != reading.ahead) return;
  const auto next = static_cast<std::size_t>(reading.ahead);
  const bool drafted = next < choice.drafts.size() && choice.drafts[next] == reading.output.id;
  taken_.push_back({reading.generation->id, reading.choice});
  take_token(*reading.generation, reading.choice, std::move(reading.output), now);
  if (drafted) ++choice.accepted;
}

void EngineLoop::settle_drafts(std::span<const PassItem> pass, scheduler::Batcher& batcher, EngineIntake::Totals* totals) {
  for (const PassItem& item : pass) {
    Generation& generation = *generations_.at(item.sequence.request);
    GenerationChoice& choice = generation.at(item.sequence.choice);
    if (item.kind == PassKind::kDraft) batcher.drafted(item.sequence, generation.is_end(choice.drafts.back()));
    if (item.kind != PassKind::kVerify) continue;
    const int drafted = static_cast<int>(choice.drafts.size());
    batcher.accepted(item.sequence, choice.accepted);
    totals->drafted += static_cast<std::uint64_t>(drafted);
    totals->accepted += static_cast<std::uint64_t>(choice.accepted);
    // Each token of this pass was held against a draft, as far as there were any; drafts behind a choice's end were not.
    const int tokens = generation.known_tokens(item.sequence.choice) - (item.start + 1);
    if (const int tried = std::min(drafted, tokens); tried > 0) draft_budget_.verified(tried, choice.accepted);
    totals->draft_acceptance = draft_budget_.acceptance();
    generation.settle_verified(item.sequence.choice, Clock::now());
  }
}

void EngineLoop::drop_drafts(Generation& generation) {
  generation.profile.reset();
  for (int choice = 0; choice < generation.request.choices; ++choice) generation.settle_drafts(choice);
}

}  // namespace lynx::server
