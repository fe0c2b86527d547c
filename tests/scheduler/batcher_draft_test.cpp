// Drafts on Anchors, and their verification, pass by pass. What holds in any order of events: batcher_simulation.

#include <algorithm>
#include <string>

#include "scheduler/batcher.h"
#include "tests/catch.h"

using namespace lynx;
using namespace lynx::scheduler;

namespace {

BatcherLimits limits(int blocks) {
  return {.blocks = blocks,
          .block_tokens = 4,
          .rows_per_pass = 16,
          .logit_rows_per_pass = 16,
          .chunk_rows_beside_decodes = 16,
          .max_running = 4,
          .max_waiting = 4};
}

/// Admits a remote prompt and hands its first tokens over.
void start(Batcher& batcher, RequestId id, const RequestShape& shape) {
  RequestShape remote = shape;
  remote.remote_prompt = true;
  REQUIRE(batcher.submit(id, remote).ok());
  REQUIRE(batcher.next().admit == std::vector<RequestId>{id});
  for (int choice = 0; choice < shape.choices; ++choice) batcher.token_added({id, choice});
}

BatcherStep draft(Batcher& batcher) {
  BatcherStep step = batcher.next();
  batcher.pass_completed();
  for (const PassItem& item : step.pass) {
    if (item.kind == PassKind::kDraft) batcher.drafted(item.sequence);
  }
  return step;
}

int draft_until_done(Batcher& batcher) {
  int passes = 0;
  while (!draft(batcher).pass.empty()) REQUIRE(++passes < 100);
  return passes;
}

/// What a verification of which `right` drafts were right tells, as the engine does.
void verify(Batcher& batcher, SequenceId id, int right) {
  for (int token = 0; token <= right; ++token) batcher.token_added(id);
  batcher.accepted(id, right);
}

bool same(const PassItem& item, SequenceId id, int start, int count, PassKind kind, int logit_rows) {
  return item.sequence == id && item.start == start && item.count == count && item.kind == kind && item.logit_rows == logit_rows;
}

}  // namespace

TEST_CASE("a draft a pass until the limit, and none that max_tokens leaves no room for") {
  for (const int most : {1, 3, 50}) {
    for (const int max_tokens : {1, 2, 3, 4, 9}) {
      INFO(most << " drafts, max_tokens " << max_tokens);
      Batcher batcher(limits(100));
      start(batcher, 1, {.prompt_tokens = 6, .max_tokens = max_tokens});
      batcher.anchored(1, most);
      CHECK(batcher.state(1) == RequestState::kDrafting);
      const int drafts = std::min(most, std::max(0, max_tokens - 2));
      CHECK(draft_until_done(batcher) == drafts);
      batcher.prompt_arrived(1);
      CHECK(batcher.state(1) == (drafts > 0 ? RequestState::kVerifying : RequestState::kDecoding));
      const BatcherStep step = batcher.next();
      REQUIRE(step.pass.size() == 1);
      CHECK(same(step.pass[0], {1, 0}, 6, 1 + drafts, drafts > 0 ? PassKind::kVerify : PassKind::kDecode, 1 + drafts));
    }
  }
}

TEST_CASE("nothing is drafted behind a drafted end, until there are other Anchors") {
  Batcher batcher(limits(100));
  start(batcher, 1, {.prompt_tokens = 6, .choices = 2, .max_tokens = 9});
  batcher.anchored(1, 5);
  REQUIRE(batcher.next().pass.size() == 2);
  batcher.pass_completed();
  batcher.drafted({1, 0}, true);
  batcher.drafted({1, 1}, false);
  const BatcherStep step = draft(batcher);
  REQUIRE(step.pass.size() == 1);
  CHECK(step.pass[0].sequence == SequenceId{1, 1});
  batcher.anchors_lost(1);
  batcher.anchored(1, 5);
  CHECK(draft(batcher).pass.size() == 2);
  batcher.drafted({1, 0}, true);
  batcher.prompt_arrived(1);
  const BatcherStep verification = batcher.next();
  REQUIRE(verification.pass.size() == 2);
  CHECK(same(verification.pass[0], {1, 0}, 6, 3, PassKind::kVerify, 3));
  CHECK(same(verification.pass[1], {1, 1}, 6, 2, PassKind::kVerify, 2));
}

TEST_CASE("nothing is drafted before the first token or without Anchors") {
  Batcher batcher(limits(100));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 6, .max_tokens = 9, .remote_prompt = true}).ok());
  CHECK(batcher.next().pass.empty());
  batcher.anchored(1, 4);
  CHECK(batcher.next().pass.empty());
  batcher.token_added({1, 0});
  CHECK(draft(batcher).pass.size() == 1);
  batcher.anchors_lost(1);
  CHECK(batcher.state(1) == RequestState::kAwaitingCache);
  CHECK(batcher.next().pass.empty());
  batcher.drafted({1, 0});  // Too late: it counts for nothing.
  batcher.anchored(1, 4);
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 1);
  CHECK(same(step.pass[0], {1, 0}, 6, 1, PassKind::kDraft, 1));  // From the prompt's end anew.
}

TEST_CASE("right drafts are kept, wrong ones rolled back, and the next step is where it would be without any") {
  for (int right = 0; right <= 4; ++right) {
    INFO(right << " right ones");
    Batcher batcher(limits(100));
    start(batcher, 1, {.prompt_tokens = 6, .max_tokens = 30});
    batcher.anchored(1, 4);
    REQUIRE(draft_until_done(batcher) == 4);
    batcher.prompt_arrived(1);
    REQUIRE(batcher.next().pass.size() == 1);
    batcher.pass_completed();
    CHECK(batcher.state(1) == RequestState::kDecoding);
    verify(batcher, {1, 0}, right);
    const BatcherStep step = batcher.next();
    REQUIRE(step.pass.size() == 1);
    CHECK(same(step.pass[0], {1, 0}, 6 + 1 + right, 1, PassKind::kDecode, 1));
  }
}

TEST_CASE("choices that share a tail draft and are verified each for itself, and their blocks come back") {
  Batcher batcher(limits(20));
  start(batcher, 1, {.prompt_tokens = 6, .choices = 2, .max_tokens = 9});
  CHECK(batcher.free_blocks() == 18);
  batcher.anchored(1, 3);
  const BatcherStep first = draft(batcher);
  REQUIRE(first.pass.size() == 2);
  CHECK(same(first.pass[0], {1, 0}, 6, 1, PassKind::kDraft, 1));
  CHECK(same(first.pass[1], {1, 1}, 6, 1, PassKind::kDraft, 1));
  CHECK(batcher.free_blocks() == 17);  // The first one to write has copied the tail.
  CHECK(draft_until_done(batcher) == 2);
  batcher.prompt_arrived(1);
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 2);
  CHECK(same(step.pass[0], {1, 0}, 6, 4, PassKind::kVerify, 4));
  CHECK(same(step.pass[1], {1, 1}, 6, 4, PassKind::kVerify, 4));
  batcher.pass_completed();
  verify(batcher, {1, 0}, 3);
  verify(batcher, {1, 1}, 0);
  const BatcherStep next = batcher.next();
  REQUIRE(next.pass.size() == 2);
  CHECK(next.pass[0].start == 10);
  CHECK(next.pass[1].start == 7);
  batcher.failed(1);
  for (const int choice : {0, 1}) batcher.released({1, choice});
  CHECK(batcher.free_blocks() == 20);
}

TEST_CASE("drafts take rows and logits that nobody else wants") {
  BatcherLimits narrow = limits(100);
  narrow.max_running = 3;
  SECTION("rows") {
    narrow.rows_per_pass = 4;
  }
  SECTION("logits") {
    narrow.logit_rows_per_pass = 4;
  }
  Batcher batcher(narrow);
  for (const RequestId id : {1, 2, 3}) start(batcher, id, {.prompt_tokens = 4, .max_tokens = 20});
  batcher.anchored(1, 8);
  for (int i = 0; i < 3; ++i) CHECK(draft(batcher).pass.size() == 1);
  batcher.prompt_arrived(1);
  batcher.prompt_arrived(2);
  batcher.anchored(3, 8);
  // Two decode steps, of which one verifies as many drafts as there are rows; the youngest drafts in none.
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 2);
  CHECK(same(step.pass[0], {1, 0}, 4, 3, PassKind::kVerify, 3));
  CHECK(same(step.pass[1], {2, 0}, 4, 1, PassKind::kDecode, 1));
  batcher.pass_completed();
  CHECK(batcher.state(1) == RequestState::kDecoding);  // The draft that found no row is given up.
  verify(batcher, {1, 0}, 2);
  batcher.token_added({2, 0});
  const BatcherStep next = batcher.next();
  REQUIRE(next.pass.size() == 3);
  CHECK(same(next.pass[0], {1, 0}, 7, 1, PassKind::kDecode, 1));
  CHECK(same(next.pass[1], {2, 0}, 5, 1, PassKind::kDecode, 1));
  CHECK(same(next.pass[2], {3, 0}, 4, 1, PassKind::kDraft, 1));
}

// Fails where a verification takes its drafts' blocks before another's decode step has its own.
TEST_CASE("a verification's drafts crowd out no decode step that needs a block") {
  Batcher batcher(limits(5));
  start(batcher, 1, {.prompt_tokens = 4, .max_tokens = 12});
  start(batcher, 2, {.prompt_tokens = 4, .max_tokens = 12});
  batcher.anchored(1, 4);
  batcher.prompt_arrived(2);
  for (int pass = 0; pass < 4; ++pass) {
    const BatcherStep step = draft(batcher);
    REQUIRE(step.pass.size() == 2);
    CHECK(same(step.pass[0], {2, 0}, 4 + pass, 1, PassKind::kDecode, 1));
    CHECK(same(step.pass[1], {1, 0}, 4 + pass, 1, PassKind::kDraft, 1));
    batcher.token_added({2, 0});
  }
  REQUIRE(batcher.free_blocks() == 1);
  batcher.prompt_arrived(1);
  // The last draft lies at position 8, and the other one's token too: one of them finds a block.
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 2);
  CHECK(same(step.pass[0], {1, 0}, 4, 4, PassKind::kVerify, 4));
  CHECK(same(step.pass[1], {2, 0}, 8, 1, PassKind::kDecode, 1));
}

// Fails where the decode step's block is looked for among the free ones and the youngest's alone.
TEST_CASE("a block that only drafts need is taken back before anybody is preempted") {
  Batcher batcher(limits(5));
  start(batcher, 1, {.prompt_tokens = 4, .max_tokens = 16});
  start(batcher, 2, {.prompt_tokens = 4, .max_tokens = 12});
  batcher.anchored(1, 20);
  for (int pass = 0; pass < 5; ++pass) REQUIRE(draft(batcher).pass.size() == 1);  // The last one in a block for nothing else.
  REQUIRE(batcher.free_blocks() == 1);
  batcher.prompt_arrived(2);
  for (int pass = 0; pass < 4; ++pass) {
    const BatcherStep step = draft(batcher);
    REQUIRE_FALSE(step.pass.empty());
    CHECK(same(step.pass[0], {2, 0}, 4 + pass, 1, PassKind::kDecode, 1));
    batcher.token_added({2, 0});
  }
  REQUIRE(batcher.free_blocks() == 0);
  const BatcherStep step = draft(batcher);
  CHECK(step.preempt.empty());
  CHECK(step.take_back == std::vector<SequenceId>{{1, 0}});
  REQUIRE(step.pass.size() == 1);
  CHECK(same(step.pass[0], {2, 0}, 8, 1, PassKind::kDecode, 1));
  batcher.choice_ended({2, 0});
  batcher.released({2, 0});
  // There are blocks again: what lay in the lost one is computed again, and drafting goes on.
  const BatcherStep next = draft(batcher);
  REQUIRE(next.pass.size() == 1);
  CHECK(same(next.pass[0], {1, 0}, 5, 8, PassKind::kDraft, 1));
  batcher.prompt_arrived(1);
  const BatcherStep verification = batcher.next();
  REQUIRE(verification.pass.size() == 1);
  CHECK(same(verification.pass[0], {1, 0}, 4, 10, PassKind::kVerify, 10));
}

// Fails where drafts are planned before chunks: the oldest one's replay would find no rows.
TEST_CASE("a replay goes before drafts") {
  BatcherLimits narrow = limits(100);
  narrow.rows_per_pass = 4;
  Batcher batcher(narrow);
  start(batcher, 1, {.prompt_tokens = 4, .max_tokens = 40});
  for (int token = 0; token < 9; ++token) batcher.token_added({1, 0});  // As after a preemption: ten tokens are known.
  start(batcher, 2, {.prompt_tokens = 4, .max_tokens = 40});
  batcher.prompt_arrived(1);
  batcher.anchored(2, 8);
  for (const int start_at : {4, 8}) {
    const BatcherStep step = batcher.next();
    REQUIRE(step.pass.size() == 1);
    CHECK(same(step.pass[0], {1, 0}, start_at, 4, PassKind::kReplay, 0));
    batcher.pass_completed();
  }
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 2);
  CHECK(same(step.pass[0], {1, 0}, 12, 2, PassKind::kReplay, 1));
  CHECK(same(step.pass[1], {2, 0}, 4, 1, PassKind::kDraft, 1));
}

// Fails where the replay goes to the last known token: a token would be chosen, and the drafts held against the one behind it.
TEST_CASE("after a preemption tokens are replayed up to the last one, which is verified with the drafts behind it") {
  Batcher batcher(limits(100));
  start(batcher, 1, {.prompt_tokens = 4, .max_tokens = 40});
  for (int token = 0; token < 4; ++token) batcher.token_added({1, 0});  // As after a preemption: five tokens are known.
  batcher.anchored(1, 3);
  const BatcherStep first = draft(batcher);
  REQUIRE(first.pass.size() == 1);
  CHECK(same(first.pass[0], {1, 0}, 4, 5, PassKind::kDraft, 1));  // The Anchors have seen none of them.
  CHECK(draft_until_done(batcher) == 2);
  batcher.prompt_arrived(1);
  const BatcherStep replay = batcher.next();
  REQUIRE(replay.pass.size() == 1);
  CHECK(same(replay.pass[0], {1, 0}, 4, 4, PassKind::kReplay, 0));
  batcher.pass_completed();
  CHECK(batcher.state(1) == RequestState::kVerifying);
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 1);
  CHECK(same(step.pass[0], {1, 0}, 8, 4, PassKind::kVerify, 4));
}

TEST_CASE("preempted while it drafts or verifies, a request forgets its drafts and keeps its tokens") {
  for (const bool verifying : {false, true}) {
    INFO(verifying);
    Batcher batcher(limits(6));
    start(batcher, 1, {.prompt_tokens = 8, .max_tokens = 16});
    start(batcher, 2, {.prompt_tokens = 4, .max_tokens = 12});
    batcher.anchored(2, 2);
    CHECK(draft_until_done(batcher) == 2);
    if (verifying) batcher.prompt_arrived(2);
    for (int token = 0; token < 12; ++token) batcher.token_added({1, 0});  // Wants 21 positions: all six blocks.
    const BatcherStep step = batcher.next();
    REQUIRE(step.preempt == std::vector<RequestId>{2});
    CHECK(batcher.state(2) == RequestState::kPreempted);
    batcher.drafted({2, 0});
    batcher.anchored(2, 5);
    batcher.prompt_arrived(2);
    CHECK(batcher.state(2) == RequestState::kPreempted);
    batcher.failed(1);
    batcher.released({1, 0});
    batcher.released({2, 0});
    CHECK(batcher.next().admit == std::vector<RequestId>{2});
    batcher.prompt_arrived(2);
    CHECK(batcher.state(2) == RequestState::kDecoding);
    const BatcherStep decode = batcher.next();
    REQUIRE(decode.pass.size() == 1);
    CHECK(same(decode.pass[0], {2, 0}, 4, 1, PassKind::kDecode, 1));
  }
}

TEST_CASE("a choice that ended is not drafted for, and does not hold up the others' verification") {
  Batcher batcher(limits(100));
  start(batcher, 1, {.prompt_tokens = 6, .choices = 2, .max_tokens = 9});
  batcher.choice_ended({1, 0});
  batcher.anchored(1, 3);
  const BatcherStep step = draft(batcher);
  REQUIRE(step.pass.size() == 1);
  CHECK(step.pass[0].sequence == SequenceId{1, 1});
  batcher.choice_ended({1, 1});
  CHECK(batcher.state(1) == RequestState::kFinished);
  CHECK(batcher.next().pass.empty());
}
