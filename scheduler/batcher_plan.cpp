// The decisions of Batcher::next(): who gives way, who comes in, and what the next pass computes.

#include <algorithm>

#include "scheduler/batcher.h"

namespace lynx::scheduler {
namespace {

// A chunk smaller than this is not worth splitting the rows further: it costs almost as much as this many.
constexpr int kMinShareRows = 64;

}  // namespace

// Blocks that must be taken so that every live choice can hold all tokens it has: what the request's next steps write.
int Batcher::growth(const Request& request) {
  std::vector<int> tokens(request.choices.size(), 0);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!request.choices[i].ended) tokens[i] = request.shape.prompt_tokens + request.choices[i].generated;
  }
  return request.blocks.growth_of_all(tokens);
}

// Held by sequences that no longer run: free as soon as they are released.
int Batcher::retiring_blocks() const {
  int blocks = 0;
  for (const auto& [id, request] : requests_) {
    if (!is_running(request.state)) {
      blocks += request.blocks.held();
      continue;
    }
    for (std::size_t i = 0; i < request.choices.size(); ++i) {
      if (request.choices[i].ended) blocks += request.blocks.held_alone(static_cast<int>(i));
    }
  }
  return blocks;
}

// The choice that computes the prompt for all.
int Batcher::leader(const Request& request) {
  const auto live = std::find_if(request.choices.begin(), request.choices.end(), [](const Choice& c) { return !c.ended; });
  return static_cast<int>(live - request.choices.begin());
}

void Batcher::preempt_until_it_fits(BatcherStep* step) {
  int wanted = 0;
  std::vector<std::pair<RequestId, Request*>> running;
  for (auto& [id, request] : requests_) {
    if (!is_running(request.state)) continue;
    running.emplace_back(id, &request);
    wanted += growth(request);
  }
  step->take_back = take_back(wanted - free_ - retiring_blocks());
  int available = free_ + retiring_blocks();
  while (wanted > available && running.size() > 1) {
    auto [id, request] = running.back();
    running.pop_back();
    wanted -= growth(*request);
    available += request->blocks.held();
    preempt(*request);
    step->preempt.push_back(id);
  }
}

// Blocks that only drafts need, the youngest request's first, until there are `blocks` of them. What was drafted in them is
// computed again once there are others.
std::vector<SequenceId> Batcher::take_back(int blocks) {
  std::vector<SequenceId> from;
  for (auto it = requests_.rbegin(); it != requests_.rend(); ++it) {
    auto& [id, request] = *it;
    if (!is_running(request.state)) continue;
    for (int index = 0; index < request.shape.choices; ++index) {
      Choice& choice = request.choices[static_cast<std::size_t>(index)];
      if (blocks <= 0) return from;
      if (choice.ended) continue;  // All of its blocks are retiring.
      const int known = request.shape.prompt_tokens + choice.generated;
      const int taken = request.blocks.shrink(index, known);
      if (taken == 0) continue;
      choice.draft_computed = std::min(choice.draft_computed, known);
      free_ += taken;
      blocks -= taken;
      from.push_back({id, index});
    }
  }
  return from;
}

void Batcher::preempt(Request& request) {
  apply(request, RequestEvent::kPreempt);
  request.prompt_computed = 0;
  drop_drafts(request);
  for (Choice& choice : request.choices) choice.computed = 0;
}

std::vector<RequestId> Batcher::admit_in_order() {
  std::vector<RequestId> admitted;
  int sequences = 0;
  int promised = 0;  // Growth of those that run already.
  for (auto& [id, request] : requests_) {
    if (is_terminal(request.state)) continue;
    const int live = live_choices(request);
    const int needed = growth(request);
    if (!is_running(request.state)) {
      // One block a sequence is kept back: room for 64 tokens each before anybody must be preempted.
      const int kept_back = sequences == 0 ? 0 : sequences + live;
      const bool retiring = request.blocks.held() > 0;
      if (retiring || sequences + live > limits_.max_running || promised + needed + kept_back > free_) break;
      apply(request, request.shape.remote_prompt ? RequestEvent::kAwait : RequestEvent::kAdmit);
      request.blocks.take_prompt(leader(request));
      free_ -= request.blocks.held();
      promised += needed - request.blocks.held();
      admitted.push_back(id);
    } else {
      promised += needed;
    }
    sequences += live;
  }
  return admitted;
}

// False, and nothing taken, while blocks that will be enough are still being released.
bool Batcher::take_blocks(Request& request, int choice, int tokens) {
  const int needed = request.blocks.growth(choice, tokens);
  if (needed > free_) return false;
  request.blocks.grow(choice, tokens);
  free_ -= needed;
  return true;
}

Batcher::Room Batcher::room_beside(const std::vector<PassItem>& pass) const {
  Room room{limits_.rows_per_pass, limits_.logit_rows_per_pass};
  for (const PassItem& item : pass) {
    room.rows -= item.count;
    room.logits -= item.logit_rows;
  }
  return room;
}

// As take_blocks(), but for drafts: what every running request's own steps will take stays free.
bool Batcher::take_spare_blocks(Request& request, int choice, int tokens) {
  if (request.blocks.growth(choice, tokens) == 0) return true;
  int promised = 0;
  for (const auto& [id, other] : requests_) promised += is_running(other.state) ? growth(other) : 0;
  const int own = request.shape.prompt_tokens + request.choices[static_cast<std::size_t>(choice)].generated;
  if (request.blocks.growth(choice, tokens) - request.blocks.growth(choice, own) + promised > free_) return false;
  return take_blocks(request, choice, tokens);
}

void Batcher::plan_decodes(std::vector<PassItem>& pass) {
  for (auto& [id, request] : requests_) {
    if (!has_prompt(request.state)) continue;
    for (int index = 0; index < request.shape.choices; ++index) {
      const Choice& choice = request.choices[static_cast<std::size_t>(index)];
      const int known = request.shape.prompt_tokens + choice.generated;
      if (choice.ended || choice.computed + 1 != known || !take_blocks(request, index, known)) continue;
      pass.push_back({{id, index}, choice.computed, 1, choice.drafted > 0 ? PassKind::kVerify : PassKind::kDecode, 1});
    }
  }
}

// A row for each sequence is kept free (they fit: max_running is clamped), and the blocks of all decode steps are taken, so that
// drafts crowd out nobody's step. Those for which there are no rows or blocks are left out, and with that given up.
void Batcher::add_verifications(std::vector<PassItem>& pass) {
  int spare = std::min(limits_.rows_per_pass, limits_.logit_rows_per_pass);
  for (const auto& [id, request] : requests_) spare -= has_prompt(request.state) ? live_choices(request) : 0;
  for (PassItem& item : pass) {
    if (item.kind != PassKind::kVerify) continue;
    Request& request = requests_.at(item.sequence.request);
    const int drafted = request.choices[static_cast<std::size_t>(item.sequence.choice)].drafted;
    int drafts = std::min(drafted, spare);
    while (drafts > 0 && !take_spare_blocks(request, item.sequence.choice, item.start + 1 + drafts)) --drafts;
    spare -= drafts;
    item.count += drafts;
    item.logit_rows += drafts;
  }
}

// In what nobody else wants of this pass. The last token of a choice is never drafted: a verification gives one more than it
// confirms.
void Batcher::plan_drafts(std::vector<PassItem>& pass) {
  auto [rows, logits] = room_beside(pass);
  for (auto& [id, request] : requests_) {
    if (request.state != RequestState::kDrafting) continue;
    for (int index = 0; index < request.shape.choices; ++index) {
      const Choice& choice = request.choices[static_cast<std::size_t>(index)];
      const int known = request.shape.prompt_tokens + choice.generated + choice.drafted;
      const bool enough = choice.drafted_end || choice.drafted >= request.draft_limit ||
                          choice.generated + choice.drafted + 1 >= request.shape.max_tokens;
      const int count = known - choice.draft_computed;
      if (choice.ended || choice.generated == 0 || enough || count > rows || logits < 1) continue;
      if (!take_spare_blocks(request, index, known)) continue;
      rows -= count;
      --logits;
      pass.push_back({{id, index}, choice.draft_computed, count, PassKind::kDraft, 1});
    }
  }
}

std::vector<Batcher::Candidate> Batcher::chunk_candidates() {
  std::vector<Candidate> candidates;
  for (auto& [id, request] : requests_) {
    const int prompt = request.shape.prompt_tokens;
    if (request.state == RequestState::kPrefilling) {
      candidates.push_back({&request, {id, leader(request)}, request.prompt_computed, prompt - request.prompt_computed});
    }
    if (!has_prompt(request.state)) continue;
    for (int index = 0; index < request.shape.choices; ++index) {
      const Choice& choice = request.choices[static_cast<std::size_t>(index)];
      const int missing = prompt + choice.generated - choice.computed;
      if (choice.ended || missing <= 1) continue;
      // The last known token's logits decide on the first draft: it is computed with them (kVerify).
      candidates.push_back({&request, {id, index}, choice.computed, missing - (choice.drafted > 0 ? 1 : 0)});
    }
  }
  return candidates;
}

// How many of the last rows of a chunk of `count` positions must give logits.
int Batcher::logit_rows(const Candidate& candidate, int count) {
  const Request& request = *candidate.request;
  const Choice& choice = request.choices[static_cast<std::size_t>(candidate.sequence.choice)];
  const int end = candidate.start + count;
  int rows = end == request.shape.prompt_tokens + choice.generated ? 1 : 0;  // The next token is chosen from the last one's logits.
  if (request.state == RequestState::kPrefilling && request.shape.score_prompt) {
    rows = std::max(rows, end - std::max(candidate.start, request.prompt_scored));
  }
  return rows;
}

// Half of `rows` for the oldest, equal shares of the other half for the others, and what nobody of them needs in order of age.
std::vector<int> Batcher::share_rows(const std::vector<Candidate>& candidates, int rows) {
  std::vector<int> granted(candidates.size(), 0);
  const auto grant = [&](std::size_t i, int limit) {
    const int given = std::min({limit, rows, candidates[i].rows - granted[i]});
    granted[i] += given;
    rows -= given;
  };
  const int oldest_share = (rows + 1) / 2;
  const int share = std::max(kMinShareRows, (rows - oldest_share) / std::max(1, static_cast<int>(candidates.size()) - 1));
  for (std::size_t i = 0; i < candidates.size(); ++i) grant(i, i == 0 ? oldest_share : share);
  for (std::size_t i = 0; i < candidates.size(); ++i) grant(i, rows);
  return granted;
}

void Batcher::plan_chunks(std::vector<PassItem>& pass) {
  const std::vector<Candidate> candidates = chunk_candidates();
  auto [rows, logits] = room_beside(pass);
  if (!pass.empty()) rows = std::min(rows, limits_.chunk_rows_beside_decodes);
  const std::vector<int> granted = share_rows(candidates, rows);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    int count = granted[i];
    while (count > 0 && logit_rows(candidate, count) > logits) --count;
    const bool prefill = candidate.request->state == RequestState::kPrefilling;  // Its blocks were taken on admission.
    if (count == 0 || (!prefill && !take_blocks(*candidate.request, candidate.sequence.choice, candidate.start + count))) continue;
    const int with_logits = logit_rows(candidate, count);
    logits -= with_logits;
    pass.push_back({candidate.sequence, candidate.start, count, prefill ? PassKind::kPrefill : PassKind::kReplay, with_logits});
  }
}

}  // namespace lynx::scheduler
