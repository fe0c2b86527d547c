#include "scheduler/batcher.h"

#include <algorithm>
#include <string>

#include "tests/catch.h"

using namespace lynx;
using namespace lynx::scheduler;

namespace {

BatcherLimits limits(int blocks) {
  return {.blocks = blocks,
          .block_tokens = 64,
          .rows_per_pass = 256,
          .logit_rows_per_pass = 64,
          .chunk_rows_beside_decodes = 128,
          .max_running = 8,
          .max_waiting = 4};
}

// Completes the pass as an engine would: every item that gave the logits of its last known token gets one more token.
void complete(Batcher& batcher, const BatcherStep& step) {
  batcher.pass_completed();
  for (const PassItem& item : step.pass) {
    if (item.logit_rows > 0) batcher.token_added(item.sequence);
  }
}

}  // namespace

TEST_CASE("a request that can never fit is refused, and the message names need and capacity") {
  Batcher batcher(limits(10));
  CHECK(batcher.submit(1, {.prompt_tokens = 640, .max_tokens = 1}).ok());
  const Status too_long = batcher.submit(2, {.prompt_tokens = 640, .max_tokens = 2});
  CHECK(too_long.code() == Code::kResourceExhausted);
  CHECK_THAT(too_long.message(),
             Catch::Contains("11 KV blocks") && Catch::Contains("capacity is 10") && Catch::Contains("--kv-memory"));
  const Status too_many = batcher.submit(3, {.prompt_tokens = 1, .choices = 9, .max_tokens = 1});
  CHECK(too_many.code() == Code::kResourceExhausted);
  CHECK_THAT(too_many.message(), Catch::Contains("n = 9") && Catch::Contains("8 sequences"));
}

TEST_CASE("the largest max_tokens that fits is the last one that is not refused") {
  for (const int blocks : {1, 2, 5, 10}) {
    const Batcher batcher(limits(blocks));
    for (const int prompt : {1, 63, 64, 65, 128, 191, 320, 640, 641}) {
      for (int choices = 1; choices <= 8; ++choices) {
        INFO(blocks << " blocks, prompt " << prompt << ", n " << choices);
        RequestShape shape{.prompt_tokens = prompt, .choices = choices, .max_tokens = 1};
        while (batcher.check_capacity(shape).ok()) ++shape.max_tokens;
        const int fits = shape.max_tokens - 1;
        shape.max_tokens = 1000;
        CHECK(batcher.largest_max_tokens(shape) == fits);
        shape.max_tokens = std::max(1, fits - 1);
        CHECK(batcher.largest_max_tokens(shape) == std::min(fits, shape.max_tokens));
      }
    }
  }
}

TEST_CASE("the waiting queue is bounded and names its size") {
  Batcher batcher(limits(10));
  for (RequestId id = 0; id < 4; ++id) CHECK(batcher.submit(id, {.prompt_tokens = 1, .max_tokens = 1}).ok());
  const Status full = batcher.submit(4, {.prompt_tokens = 1, .max_tokens = 1});
  CHECK(full.code() == Code::kUnavailable);
  CHECK_THAT(full.message(), Catch::Contains("4 requests are waiting"));
  CHECK(batcher.next().admit.size() == 4);
  CHECK(batcher.submit(5, {.prompt_tokens = 1, .max_tokens = 1}).ok());
}

TEST_CASE("decode steps come first and prompts share what is left, the oldest with half of it") {
  Batcher batcher(limits(1000));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 10, .max_tokens = 100}).ok());
  complete(batcher, batcher.next());
  REQUIRE(batcher.submit(2, {.prompt_tokens = 5000, .max_tokens = 100}).ok());
  REQUIRE(batcher.submit(3, {.prompt_tokens = 30, .max_tokens = 100}).ok());
  const BatcherStep step = batcher.next();
  REQUIRE(step.pass.size() == 3);
  CHECK(step.pass[0].kind == PassKind::kDecode);
  CHECK(step.pass[0].start == 10);
  CHECK(step.pass[1].kind == PassKind::kPrefill);
  CHECK(step.pass[1].count == 128 - 30);  // What the short prompt does not need goes to the oldest.
  CHECK(step.pass[1].logit_rows == 0);
  CHECK(step.pass[2].count == 30);
  CHECK(step.pass[2].logit_rows == 1);
}

TEST_CASE("no second pass is planned while one is under way") {
  Batcher batcher(limits(100));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 10, .max_tokens = 100}).ok());
  CHECK(batcher.next().pass.size() == 1);
  CHECK(batcher.next().pass.empty());
  batcher.pass_completed();
  CHECK(batcher.next().pass.empty());  // Its token is not chosen yet: there is nothing to compute.
  batcher.token_added({1, 0});
  CHECK(batcher.next().pass.size() == 1);
}

TEST_CASE("a scored prompt asks for the logits of every position once, within the logit rows of a pass") {
  Batcher batcher(limits(100));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 150, .max_tokens = 1, .score_prompt = true}).ok());
  int scored = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const BatcherStep step = batcher.next();
    REQUIRE(step.pass.size() == 1);
    CHECK(step.pass[0].logit_rows == step.pass[0].count);
    CHECK(step.pass[0].count <= 64);
    scored += step.pass[0].logit_rows;
    batcher.pass_completed();
  }
  CHECK(scored == 150);
  CHECK(batcher.state(1) == RequestState::kDecoding);
}

TEST_CASE("a preempted request prefills its prompt and replays its tokens, with logits for the next one only") {
  Batcher batcher(limits(4));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 60, .max_tokens = 150}).ok());
  REQUIRE(batcher.submit(2, {.prompt_tokens = 63, .max_tokens = 80}).ok());
  bool preempted = false;
  while (!preempted) {
    const BatcherStep step = batcher.next();
    if (!step.preempt.empty()) {
      CHECK(step.preempt == std::vector<RequestId>{2});
      CHECK(step.pass.empty());
      batcher.released({2, 0});
      preempted = true;
    } else {
      REQUIRE_FALSE(step.pass.empty());
      complete(batcher, step);
    }
  }
  CHECK(batcher.state(2) == RequestState::kPreempted);
  batcher.failed(1);
  batcher.released({1, 0});
  std::vector<PassItem> items;
  for (int pass = 0; pass < 2; ++pass) {
    const BatcherStep step = batcher.next();
    REQUIRE(step.pass.size() == 1);
    items.push_back(step.pass[0]);
    complete(batcher, step);
  }
  CHECK(items[0].kind == PassKind::kPrefill);
  CHECK(items[0].start == 0);
  CHECK(items[0].count == 63);
  CHECK(items[0].logit_rows == 0);
  CHECK(items[1].kind == PassKind::kReplay);
  CHECK(items[1].start == 63);
  CHECK(items[1].count > 1);
  CHECK(items[1].logit_rows == 1);
}

TEST_CASE("blocks of an ended request count as held until they are released") {
  Batcher batcher(limits(4));
  REQUIRE(batcher.submit(1, {.prompt_tokens = 256, .max_tokens = 1}).ok());
  complete(batcher, batcher.next());
  batcher.choice_ended({1, 0});
  CHECK(batcher.state(1) == RequestState::kFinished);
  CHECK(batcher.free_blocks() == 0);
  REQUIRE(batcher.submit(2, {.prompt_tokens = 1, .max_tokens = 1}).ok());
  CHECK(batcher.next().admit.empty());
  batcher.released({1, 0});
  CHECK(batcher.free_blocks() == 4);
  CHECK_FALSE(batcher.state(1).has_value());
  CHECK(batcher.next().admit == std::vector<RequestId>{2});
}
