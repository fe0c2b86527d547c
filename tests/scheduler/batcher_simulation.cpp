#include "tests/scheduler/batcher_simulation.h"

#include <algorithm>

namespace lynx::scheduler {
namespace {

BatcherLimits random_limits(std::mt19937& random) {
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  return {.blocks = 2 + upto(24),
          .block_tokens = 1 + upto(8),
          .rows_per_pass = 1 + upto(48),
          .logit_rows_per_pass = 1 + upto(12),
          .chunk_rows_beside_decodes = 1 + upto(24),
          .max_running = 1 + upto(8),
          .max_waiting = 1 + upto(8)};
}

}  // namespace

BatcherSimulation::BatcherSimulation(unsigned seed, bool drafts, SimulationCoverage* coverage)
    : random_(seed),
      coverage_(coverage),
      limits_(random_limits(random_)),
      batcher_(limits_),
      blocks_(limits_.block_tokens),
      delayed_release_(upto(3) == 0),
      remote_(upto(2) == 0 || drafts),
      drafts_(drafts),
      right_percent_(static_cast<int>(seed % 3) * 50),
      cancel_percent_(upto(3) == 0 ? 0 : upto(12)),
      arrivals_left_(10 + upto(30)) {}

void BatcherSimulation::check(bool holds, const std::string& what) {
  if (!holds && failure_.empty()) failure_ = what;
}

std::string BatcherSimulation::run() {
  for (int steps = 0; failure_.empty() && (arrivals_left_ > 0 || !live_.empty() || !to_release_.empty()); ++steps) {
    check(steps < 20000, "a request never ended");
    if (arrivals_left_ > 0 && (live_.empty() || upto(3) == 0)) arrive();
    cancel_some();
    step();
    remote_progress();
    release_delayed(upto(4));
    check_blocks();
    check_draft_states();
  }
  check(batcher_.idle(), "requests are left");
  check(batcher_.free_blocks() == limits_.blocks, "blocks leaked");
  return failure_;
}

void BatcherSimulation::arrive() {
  --arrivals_left_;
  const int block = limits_.block_tokens;
  RequestShape shape{
      .prompt_tokens = 1 + upto(block * 4), .choices = upto(3) == 0 ? 1 + upto(4) : 1, .max_tokens = 1 + upto(block * 12)};
  shape.score_prompt = upto(5) == 0;
  if (shape.score_prompt && upto(2) == 0) shape.max_tokens = 0;
  shape.remote_prompt = remote_;
  const RequestId id = next_id_++;
  const Status fits = batcher_.check_capacity(shape);
  const Status status = batcher_.submit(id, shape);
  if (!status.ok()) {
    check(fits.ok() ? status.code() == Code::kUnavailable : status.code() == Code::kResourceExhausted, "wrong refusal");
    ++(fits.ok() ? coverage_->refused_queue : coverage_->refused_capacity);
    return;
  }
  Live live{.shape = shape, .scored = std::vector<int>(static_cast<std::size_t>(shape.prompt_tokens), 0)};
  for (int c = 0; c < shape.choices; ++c)
    live.choices.push_back({.target = shape.max_tokens == 0 ? 0 : 1 + upto(shape.max_tokens),
                            .right = std::vector<bool>(static_cast<std::size_t>(shape.max_tokens))});
  live_.emplace(id, std::move(live));
}

void BatcherSimulation::cancel_some() {
  for (auto it = live_.begin(); it != live_.end();) {
    const RequestId id = (it++)->first;
    if (upto(100) >= cancel_percent_ || upto(4) != 0) continue;
    coverage_->cancelled_in.insert(*batcher_.state(id));
    batcher_.failed(id);
    end_request(id);
  }
}

void BatcherSimulation::step() {
  const BatcherStep step = batcher_.next();
  check(step.preempt.empty() || (step.pass.empty() && step.admit.empty()), "a pass beside a preemption");
  for (const SequenceId id : step.take_back) on_take_back(id);
  if (!step.preempt.empty()) check_no_spare_blocks();
  for (const RequestId id : step.preempt) on_preempt(id);
  for (const RequestId id : step.admit) on_admit(id);
  check_pass(step.pass);
  for (const PassItem& item : step.pass) begin_item(item);
  check_blocks();
  if (!step.pass.empty()) {
    steps_without_pass_ = 0;
    cancel_some();  // While the pass is under way.
    batcher_.pass_completed();
    for (const PassItem& item : step.pass) end_item(item);
  } else if (only_awaits()) {
    steps_without_pass_ = 0;
  } else if (!live_.empty() && to_release_.empty()) {
    check(++steps_without_pass_ <= 8, "nothing runs although nothing is in the way");
  } else if (!live_.empty()) {
    ++coverage_->waited_for_release;
  }
}

void BatcherSimulation::on_preempt(RequestId id) {
  ++coverage_->preemptions;
  for (const auto& [other, live] : live_) check(!live.running || other <= id, "preempted, though a younger one runs");
  Live& live = live_.at(id);
  check(live.running, "preempted, though it does not run");
  live.running = false;
  live.awaiting = false;
  live.prompt_computed = 0;
  drop_drafts(live);
  for (std::size_t c = 0; c < live.choices.size(); ++c) {
    live.choices[c].computed = 0;
    live.choices[c].right.assign(live.choices[c].right.size(), false);
    if (!live.choices[c].ended || remote_) release({id, static_cast<int>(c)});
  }
}

void BatcherSimulation::on_admit(RequestId id) {
  for (const auto& [other, live] : live_) check(other >= id || live.running, "admitted before an older one");
  Live& live = live_.at(id);
  check(!live.running, "admitted twice");
  live.running = true;
  live.awaiting = remote_;
  // The whole prompt's blocks are the leader's from now on.
  for (std::size_t c = 0; c < live.choices.size(); ++c) {
    if (live.choices[c].ended) continue;
    blocks_.write({id, static_cast<int>(c)}, 0, live.shape.prompt_tokens);
    live.holder = static_cast<int>(c);
    break;
  }
}

void BatcherSimulation::check_pass(const std::vector<PassItem>& pass) {
  int rows = 0;
  int logit_rows = 0;
  std::set<std::pair<RequestId, int>> in_pass;
  int steps = 0;
  PassKind last = PassKind::kDecode;
  for (const PassItem& item : pass) {
    rows += item.count;
    logit_rows += item.logit_rows;
    check(item.count > 0 && item.logit_rows <= item.count, "an empty item");
    check(in_pass.insert({item.sequence.request, item.sequence.choice}).second, "a sequence twice in a pass");
    // Decode steps, then chunks, then drafts.
    const auto rank = [](PassKind kind) {
      if (kind == PassKind::kDraft) return 2;
      return kind == PassKind::kDecode || kind == PassKind::kVerify ? 0 : 1;
    };
    check(rank(item.kind) >= rank(last), "a pass out of order");
    last = item.kind;
    steps += rank(item.kind) == 0 ? 1 : 0;
  }
  coverage_->drafts_beside_steps += steps > 0 && last == PassKind::kDraft ? 1 : 0;
  check(rows <= limits_.rows_per_pass, "too many rows");
  check(logit_rows <= limits_.logit_rows_per_pass, "too many logit rows");
  if (!to_release_.empty() || pass.empty()) return;
  bool oldest = true;
  for (const auto& [id, live] : live_) {
    if (!live.running || live.awaiting) continue;
    bool served = false;
    for (std::size_t c = 0; c < live.choices.size(); ++c) {
      const Choice& choice = live.choices[c];
      const bool here = in_pass.count({id, static_cast<int>(c)}) > 0;
      served = served || here;
      const bool decodes = choice.computed > 0 && choice.computed + 1 == live.shape.prompt_tokens + choice.generated;
      check(here || choice.ended || !decodes, "a decode step is left out");
    }
    check(served || !oldest, "the oldest running request is left out");
    oldest = false;
  }
}

void BatcherSimulation::begin_item(const PassItem& item) {
  const auto it = live_.find(item.sequence.request);
  check(it != live_.end() && it->second.running, "a pass item of a request that does not run");
  if (!failure_.empty()) return;
  Live& live = it->second;
  Choice& choice = live.choices[static_cast<std::size_t>(item.sequence.choice)];
  const int prompt = live.shape.prompt_tokens;
  const int known = prompt + choice.generated;
  const int end = item.start + item.count;
  check(!choice.ended, "a pass item of an ended choice");
  if (item.kind == PassKind::kDraft) return begin_draft(item, live, choice);
  if (item.kind == PassKind::kVerify) return begin_verification(item, live, choice);
  check(!live.awaiting, "a pass item of a request that awaits its cache");
  if (item.kind == PassKind::kPrefill) {
    check(!remote_, "a remote prompt is computed here");
    check(item.start == live.prompt_computed && end <= prompt, "a prompt chunk out of place");
  } else {
    check(item.start == choice.computed && item.start >= prompt && end <= known, "a replay or decode step out of place");
    check((item.kind == PassKind::kDecode) == (item.start + 1 == known), "wrong kind");
    coverage_->replays += item.kind == PassKind::kReplay ? 1 : 0;
    coverage_->verified_in_replay += choice.drafted > 0 ? 1 : 0;
    check(choice.drafted == 0 || end < known, "a token is chosen past the drafts that it decides on");
    for (int i = 0; i < item.start - prompt; ++i) check(choice.right[static_cast<std::size_t>(i)], "a step reads a draft's KV");
    for (int i = item.start; i < end; ++i) choice.right[static_cast<std::size_t>(i - prompt)] = true;
  }
  check(end != known || item.logit_rows > 0, "the last known token gives no logits");
  check(end == known || live.shape.score_prompt || item.logit_rows == 0, "logits that nobody wants");
  blocks_.write({item.sequence.request, item.sequence.choice}, item.start, end);
  if (item.kind == PassKind::kPrefill && live.shape.score_prompt) {
    for (int p = end - item.logit_rows; p < end; ++p) ++live.scored[static_cast<std::size_t>(p)];
  }
}

void BatcherSimulation::end_item(const PassItem& item) {
  const auto it = live_.find(item.sequence.request);
  if (it == live_.end()) return;  // Cancelled while the pass was under way.
  Live& live = it->second;
  const int end = item.start + item.count;
  if (item.kind == PassKind::kDraft) return end_draft(item, live.choices[static_cast<std::size_t>(item.sequence.choice)]);
  if (item.kind == PassKind::kVerify) return end_verification(item);
  if (item.kind == PassKind::kPrefill) {
    live.prompt_computed = end;
    if (end < live.shape.prompt_tokens) return;
    for (const int times : live.scored) check(!live.shape.score_prompt || times >= 1, "a prompt position was not scored");
    for (int c = 0; c < live.shape.choices; ++c) {
      Choice& choice = live.choices[static_cast<std::size_t>(c)];
      if (choice.ended) continue;
      choice.computed = end;
      if (c == item.sequence.choice) continue;
      blocks_.fork({item.sequence.request, item.sequence.choice}, {item.sequence.request, c});
      ++coverage_->forks;
    }
    const int choices = live.shape.choices;
    for (int c = 0; c < choices && live_.count(item.sequence.request) > 0; ++c) {
      const Choice& choice = live.choices[static_cast<std::size_t>(c)];
      if (!choice.ended && choice.generated == 0) choose_token(item.sequence.request, c);
    }
    return;
  }
  Choice& choice = live.choices[static_cast<std::size_t>(item.sequence.choice)];
  choice.computed = end;
  if (end == live.shape.prompt_tokens + choice.generated) choose_token(item.sequence.request, item.sequence.choice);
}

void BatcherSimulation::choose_token(RequestId id, int index) {
  Live& live = live_.at(id);
  Choice& choice = live.choices[static_cast<std::size_t>(index)];
  if (choice.target > 0) ++choice.generated;
  if (choice.generated < choice.target) {
    batcher_.token_added({id, index});
    return;
  }
  choice.ended = true;
  batcher_.choice_ended({id, index});
  if (!live.awaiting) release({id, index});  // Else bytes may still land in its blocks.
  for (const Choice& other : live.choices) {
    if (!other.ended) return;
  }
  ++coverage_->finished;
  if (live.awaiting) return end_request(id);
  live_.erase(id);
}

void BatcherSimulation::end_request(RequestId id) {
  const int choices = live_.at(id).shape.choices;
  live_.erase(id);
  for (int c = 0; c < choices; ++c) release({id, c});
}

void BatcherSimulation::release(SequenceId id) {
  to_release_.push_back(id);
  if (!delayed_release_) release_delayed(1);
}

void BatcherSimulation::release_delayed(int count) {
  for (; count > 0 && !to_release_.empty(); --count) {
    const SequenceId id = to_release_.front();
    to_release_.pop_front();
    blocks_.release({id.request, id.choice});
    batcher_.released(id);
  }
}

void BatcherSimulation::check_blocks() {
  check(blocks_.used() <= limits_.blocks, "more blocks in use than there are");
  check(batcher_.free_blocks() == limits_.blocks - blocks_.used(), "the counted blocks differ from the block tables");
}

}  // namespace lynx::scheduler
