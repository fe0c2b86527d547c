// The prefill node's part of a run with remote prompts: first tokens, Anchors and caches come when they like, in any order; and a
// model that drafts on Anchors, and is right with some chance.

#include <algorithm>

#include "tests/scheduler/batcher_simulation.h"

namespace lynx::scheduler {

void BatcherSimulation::remote_progress() {
  std::vector<RequestId> awaiting;
  for (const auto& [id, live] : live_) {
    if (live.awaiting && upto(4) == 0) awaiting.push_back(id);
  }
  for (const RequestId id : awaiting) {
    if (drafts_ && upto(3) != 0) {
      live_.at(id).drafting ? lose_anchors(id) : anchors_arrive(id);
      continue;
    }
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
  live.drafting = false;
  batcher_.prompt_arrived(id);
  ++coverage_->arrived;
  for (Choice& choice : live.choices) choice.computed = live.shape.prompt_tokens;
  share_prompt(id);
  for (int c = 0; c < live.shape.choices; ++c) {
    if (live.choices[static_cast<std::size_t>(c)].ended) release({id, c});
  }
}

void BatcherSimulation::share_prompt(RequestId id) {
  const Live& live = live_.at(id);
  for (int c = 0; c < live.shape.choices; ++c) {
    if (live.choices[static_cast<std::size_t>(c)].ended || blocks_.holds({id, c})) continue;
    blocks_.fork({id, live.holder}, {id, c});
    ++coverage_->forks;
  }
}

void BatcherSimulation::anchors_arrive(RequestId id) {
  Live& live = live_.at(id);
  live.drafting = true;
  live.most_drafts = 1 + upto(8);
  for (Choice& choice : live.choices) choice.draft_computed = live.shape.prompt_tokens;
  share_prompt(id);
  batcher_.anchored(id, live.most_drafts);
  ++coverage_->anchored;
}

void BatcherSimulation::lose_anchors(RequestId id) {
  Live& live = live_.at(id);
  if (upto(6) != 0) return;
  for (const Choice& choice : live.choices) coverage_->anchors_lost += choice.drafted > 0 ? 1 : 0;
  drop_drafts(live);
  batcher_.anchors_lost(id);
}

void BatcherSimulation::drop_drafts(Live& live) {
  live.drafting = false;
  for (Choice& choice : live.choices) choice.drafted = 0;
}

void BatcherSimulation::on_take_back(SequenceId id) {
  const Live& live = live_.at(id.request);
  Choice& choice = live_.at(id.request).choices[static_cast<std::size_t>(id.choice)];
  check(live.running && !choice.ended, "blocks are taken back from what does not run");
  const int known = live.shape.prompt_tokens + choice.generated;
  const int before = blocks_.blocks({id.request, id.choice});
  blocks_.truncate({id.request, id.choice}, known);
  check(blocks_.blocks({id.request, id.choice}) < before, "nothing is taken back");
  choice.draft_computed = std::min(choice.draft_computed, known);
  coverage_->taken_back += before - blocks_.blocks({id.request, id.choice});
}

// Nobody is preempted for a block that only a draft needs.
void BatcherSimulation::check_no_spare_blocks() {
  for (const auto& [id, live] : live_) {
    for (int c = 0; live.running && c < live.shape.choices; ++c) {
      const Choice& choice = live.choices[static_cast<std::size_t>(c)];
      if (choice.ended || !blocks_.holds({id, c})) continue;
      const int known = live.shape.prompt_tokens + choice.generated;
      check((blocks_.blocks({id, c}) - 1) * limits_.block_tokens < known, "preempted, though drafts hold blocks");
    }
  }
}

void BatcherSimulation::begin_draft(const PassItem& item, const Live& live, Choice& choice) {
  const int known = live.shape.prompt_tokens + choice.generated + choice.drafted;
  check(live.drafting, "a draft without Anchors");
  check(choice.generated > 0, "a draft before the first token");
  check(choice.drafted < live.most_drafts, "more drafts than were allowed");
  check(choice.generated + choice.drafted + 1 < live.shape.max_tokens, "a draft that can never be used");
  check(item.start == choice.draft_computed && item.start + item.count == known, "a draft out of place");
  check(item.logit_rows == 1, "a draft of several tokens at once");
  for (int i = item.start - live.shape.prompt_tokens; i < known - live.shape.prompt_tokens; ++i) {
    choice.right[static_cast<std::size_t>(i)] = false;
  }
  blocks_.write({item.sequence.request, item.sequence.choice}, item.start, known);
}

void BatcherSimulation::end_draft(const PassItem& item, Choice& choice) {
  choice.draft_computed = item.start + item.count;
  ++choice.drafted;
  ++coverage_->drafts;
  batcher_.drafted(item.sequence);
}

void BatcherSimulation::begin_verification(const PassItem& item, const Live& live, const Choice& choice) {
  check(!live.awaiting, "a verification without the cache");
  check(choice.drafted > 0, "a verification of nothing");
  check(item.count - 1 <= choice.drafted, "more is verified than was drafted");
  check(item.start == choice.computed && item.start + 1 == live.shape.prompt_tokens + choice.generated,
        "a verification out of place");
  check(item.logit_rows == item.count, "a draft is not held against logits");
  check(choice.generated + item.count <= live.shape.max_tokens, "a verification may give more tokens than were asked for");
  for (int i = 0; i < item.start - live.shape.prompt_tokens; ++i) {
    check(choice.right[static_cast<std::size_t>(i)], "a verification reads a draft's KV");
  }
  blocks_.write({item.sequence.request, item.sequence.choice}, item.start, item.start + item.count);
}

// The longest right prefix, and one more token.
void BatcherSimulation::end_verification(const PassItem& item) {
  const RequestId id = item.sequence.request;
  const auto index = static_cast<std::size_t>(item.sequence.choice);
  const int prompt = live_.at(id).shape.prompt_tokens;
  int right = 0;
  while (right < item.count - 1 && upto(100) < right_percent_) ++right;
  {
    Choice& choice = live_.at(id).choices[index];
    coverage_->left_out += choice.drafted - (item.count - 1);
    coverage_->accepted += right;
    coverage_->rolled_back += item.count - 1 - right;
    choice.drafted = 0;
    choice.computed = item.start + 1 + right;
    for (int i = 0; i < item.count; ++i) choice.right[static_cast<std::size_t>(item.start - prompt + i)] = i <= right;
  }
  for (int token = 0; token <= right; ++token) {
    if (live_.count(id) == 0 || live_.at(id).choices[index].ended) return;
    choose_token(id, item.sequence.choice);
  }
  if (live_.count(id) > 0) batcher_.accepted(item.sequence, right);
}

// The batcher drafts, verifies and decodes when the world says so.
void BatcherSimulation::check_draft_states() {
  for (const auto& [id, live] : live_) {
    if (!live.running || !remote_) continue;
    const bool drafts =
        std::any_of(live.choices.begin(), live.choices.end(), [](const Choice& c) { return !c.ended && c.drafted > 0; });
    const RequestState with_cache = drafts ? RequestState::kVerifying : RequestState::kDecoding;
    const RequestState without = live.drafting ? RequestState::kDrafting : RequestState::kAwaitingCache;
    check(batcher_.state(id) == (live.awaiting ? without : with_cache), "a request is in a wrong state");
  }
}

// Everything that runs waits for a cache: there may be no pass.
bool BatcherSimulation::only_awaits() const {
  return remote_ &&
         std::all_of(live_.begin(), live_.end(), [](const auto& entry) { return entry.second.awaiting || !entry.second.running; });
}

}  // namespace lynx::scheduler
