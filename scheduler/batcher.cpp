#include "scheduler/batcher.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

namespace lynx::scheduler {

namespace {

BatcherLimits clamped(BatcherLimits limits) {
  limits.max_running = std::max(1, std::min({limits.max_running, limits.rows_per_pass, limits.logit_rows_per_pass}));
  limits.chunk_rows_beside_decodes = std::max(1, limits.chunk_rows_beside_decodes);
  return limits;
}

}  // namespace

Batcher::Batcher(BatcherLimits limits) : limits_(clamped(limits)), free_(limits_.blocks) {}

Status Batcher::check_capacity(const RequestShape& shape) const {
  if (shape.choices > limits_.max_running) {
    return resource_exhausted(fmt::format("n = {} choices can never run at once: the capacity is {} sequences (--max-running)",
                                          shape.choices, limits_.max_running));
  }
  // The last token of a choice is never fed back, so it needs no room.
  const int tokens = shape.prompt_tokens + std::max(shape.max_tokens - 1, 0);
  const int needed = RequestBlocks(shape.prompt_tokens, shape.choices, limits_.block_tokens).blocks_at(tokens);
  if (needed > limits_.blocks) {
    return resource_exhausted(fmt::format(
        "the request can never fit: {} prompt tokens, max_tokens {} and n = {} need {} KV blocks of {} tokens, the capacity is {} "
        "(--kv-memory)",
        shape.prompt_tokens, shape.max_tokens, shape.choices, needed, limits_.block_tokens, limits_.blocks));
  }
  return {};
}

int Batcher::largest_max_tokens(const RequestShape& shape) const {
  const int tokens = RequestBlocks(shape.prompt_tokens, shape.choices, limits_.block_tokens).most_tokens_in(limits_.blocks);
  // As above: the last token needs no room.
  return tokens == 0 ? 0 : std::min(shape.max_tokens - 1, tokens - shape.prompt_tokens) + 1;
}

Status Batcher::submit(RequestId id, const RequestShape& shape) {
  LYNX_RETURN_IF_ERROR(check_capacity(shape));
  const auto queued = std::count_if(requests_.begin(), requests_.end(),
                                    [](const auto& entry) { return entry.second.state == RequestState::kQueued; });
  if (queued >= limits_.max_waiting) {
    return {Code::kUnavailable, fmt::format("the queue is full: {} requests are waiting", queued)};
  }
  requests_.emplace_hint(requests_.end(), id,
                         Request{.shape = shape,
                                 .blocks = RequestBlocks(shape.prompt_tokens, shape.choices, limits_.block_tokens),
                                 .choices = std::vector<Choice>(static_cast<std::size_t>(shape.choices))});
  return {};
}

void Batcher::pass_completed() {
  for (const PassItem& item : std::exchange(in_pass_, {})) {
    auto it = requests_.find(item.sequence.request);
    if (it == requests_.end() || !is_running(it->second.state)) continue;  // Cancelled meanwhile.
    Request& request = it->second;
    const int end = item.start + item.count;
    Choice& choice = request.choices[static_cast<std::size_t>(item.sequence.choice)];
    switch (item.kind) {
      case PassKind::kPrefill: break;
      case PassKind::kReplay:
      case PassKind::kDecode: choice.computed = end; continue;
      case PassKind::kDraft: choice.draft_computed = end; continue;
      case PassKind::kVerify:
        choice.computed = item.start + 1;  // Drafts that were right follow with accepted().
        choice.drafted = 0;
        if (!has_drafts(request)) apply(request, RequestEvent::kVerified);
        continue;
    }
    request.prompt_computed = end;
    if (item.logit_rows > 0) request.prompt_scored = end;
    if (end == request.shape.prompt_tokens) prompt_completed(request);
  }
}

// Every live choice shares the prompt from now on.
void Batcher::share_prompt(Request& request) {
  for (int index = leader(request); index < request.shape.choices; ++index) {
    const Choice& choice = request.choices[static_cast<std::size_t>(index)];
    if (!choice.ended && !request.blocks.holds(index)) request.blocks.take_prompt(index);
  }
}

void Batcher::prompt_completed(Request& request) {
  apply(request, RequestEvent::kPromptDone);
  share_prompt(request);
  for (Choice& choice : request.choices) choice.computed = request.shape.prompt_tokens;
  if (!has_drafts(request)) apply(request, RequestEvent::kVerified);
}

bool Batcher::has_drafts(const Request& request) {
  return std::any_of(request.choices.begin(), request.choices.end(), [](const Choice& c) { return !c.ended && c.drafted > 0; });
}

void Batcher::drop_drafts(Request& request) {
  for (Choice& choice : request.choices) choice.drafted = 0;
}

void Batcher::anchored(RequestId id, int drafts) {
  auto it = requests_.find(id);
  if (it == requests_.end() || !apply(it->second, RequestEvent::kAnchored)) return;
  share_prompt(it->second);
  it->second.draft_limit = drafts;
  for (Choice& choice : it->second.choices) {
    choice.draft_computed = it->second.shape.prompt_tokens;
    choice.drafted_end = false;
  }
}

void Batcher::anchors_lost(RequestId id) {
  auto it = requests_.find(id);
  if (it != requests_.end() && apply(it->second, RequestEvent::kAnchorsLost)) drop_drafts(it->second);
}

void Batcher::drafted(SequenceId id, bool last) {
  auto it = requests_.find(id.request);
  if (it == requests_.end() || it->second.state != RequestState::kDrafting) return;
  Choice& choice = it->second.choices[static_cast<std::size_t>(id.choice)];
  ++choice.drafted;
  choice.drafted_end = last;
}

void Batcher::accepted(SequenceId id, int drafts) {
  auto it = requests_.find(id.request);
  if (it == requests_.end() || !has_prompt(it->second.state)) return;
  it->second.choices[static_cast<std::size_t>(id.choice)].computed += drafts;
}

void Batcher::prompt_arrived(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end()) return;
  const RequestState state = it->second.state;
  if (state != RequestState::kAwaitingCache && state != RequestState::kDrafting) return;
  it->second.prompt_computed = it->second.shape.prompt_tokens;
  prompt_completed(it->second);
}

void Batcher::token_added(SequenceId id) {
  auto it = requests_.find(id.request);
  if (it == requests_.end() || !is_generating(it->second.state)) return;
  ++it->second.choices[static_cast<std::size_t>(id.choice)].generated;
}

void Batcher::choice_ended(SequenceId id) {
  auto it = requests_.find(id.request);
  if (it == requests_.end() || !is_generating(it->second.state)) return;
  it->second.choices[static_cast<std::size_t>(id.choice)].ended = true;
  if (live_choices(it->second) == 0) apply(it->second, RequestEvent::kComplete);
}

void Batcher::failed(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end() || !apply(it->second, RequestEvent::kFail)) return;
  erase_if_done(it);
}

void Batcher::released(SequenceId id) {
  auto it = requests_.find(id.request);
  if (it == requests_.end()) return;
  Request& request = it->second;
  if (is_running(request.state) && !request.choices[static_cast<std::size_t>(id.choice)].ended) return;
  const int before = request.blocks.held();
  request.blocks.release(id.choice);
  free_ += before - request.blocks.held();
  erase_if_done(it);
}

BatcherStep Batcher::next() {
  BatcherStep step;
  if (!in_pass_.empty()) return step;
  preempt_until_it_fits(&step);
  if (!step.preempt.empty()) return step;
  step.admit = admit_in_order();
  plan_decodes(step.pass);
  add_verifications(step.pass);
  plan_chunks(step.pass);
  plan_drafts(step.pass);
  in_pass_ = step.pass;
  return step;
}

int Batcher::waiting() const {
  return static_cast<int>(
      std::count_if(requests_.begin(), requests_.end(), [](const auto& entry) { return is_waiting(entry.second.state); }));
}

int Batcher::running() const {
  return static_cast<int>(
      std::count_if(requests_.begin(), requests_.end(), [](const auto& entry) { return is_running(entry.second.state); }));
}

std::optional<RequestState> Batcher::state(RequestId id) const {
  auto it = requests_.find(id);
  if (it == requests_.end()) return std::nullopt;
  return it->second.state;
}

bool Batcher::apply(Request& request, RequestEvent event) {
  const std::optional<RequestState> next = next_state(request.state, event);
  if (next) request.state = *next;
  return next.has_value();
}

int Batcher::live_choices(const Request& request) {
  return static_cast<int>(std::count_if(request.choices.begin(), request.choices.end(), [](const Choice& c) { return !c.ended; }));
}

void Batcher::erase_if_done(Requests::iterator it) {
  if (is_terminal(it->second.state) && it->second.blocks.held() == 0) requests_.erase(it);
}

}  // namespace lynx::scheduler
