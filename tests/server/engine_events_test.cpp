// A decode engine and a prompt transfer that says what the test tells it to, in that order.

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "scheduler/draft_budget.h"
#include "server/generation.h"
#include "server/prompt_transfer.h"
#include "tests/catch.h"
#include "tests/server/engine_fake.h"

using namespace lynx;
using namespace lynx::server;

namespace {

using Kind = TransferEvent::Kind;

constexpr std::int32_t kEnd = 0;
constexpr int kPromptTokens = 130;  ///< Some of its blocks have Anchors.

/// After each token comes the next number, but for those in `exact`, and on Anchors those in `on_anchors`.
class CountingRunner final : public Runner {
 public:
  std::map<std::int32_t, std::int32_t> exact;  ///< Both are set before there are requests.
  std::map<std::int32_t, std::int32_t> on_anchors;

  int vocabulary() const override { return 100; }
  int context() const override { return 512; }
  const std::vector<std::int32_t>& end_tokens() const override { return end_tokens_; }
  int kv_blocks() const override { return 64; }
  int max_rows() const override { return 256; }
  int max_logit_rows() const override { return 64; }
  void complete_prompt(std::span<const kv::BlockId>, int, TransferMode) override { std::abort(); }
  void copy_block(kv::BlockId, kv::BlockId) override {}
  void forward(const model::ForwardBatch& batch, float* logits) override {
    std::fill_n(logits, batch.logit_rows.size() * static_cast<std::size_t>(vocabulary()), 0.0F);
    for (const attention::QuerySpan& span : batch.spans) {
      for (int row = span.first_row; row < span.first_row + span.rows; ++row) {
        const auto at = std::lower_bound(batch.logit_rows.begin(), batch.logit_rows.end(), row);
        if (at == batch.logit_rows.end() || *at != row) continue;
        const std::int32_t next = after(batch.tokens[static_cast<std::size_t>(row)], span.anchor_blocks > 0);
        logits[(at - batch.logit_rows.begin()) * vocabulary() + next] = 1;
      }
    }
  }

 private:
  std::int32_t after(std::int32_t token, bool anchors) const {
    if (const auto it = on_anchors.find(token); anchors && it != on_anchors.end()) return it->second;
    const auto it = exact.find(token);
    return it != exact.end() ? it->second : token + 1;
  }
  std::vector<std::int32_t> end_tokens_{kEnd};
};

/// Knows requests by the order in which they were admitted first.
class Script final : public PromptTransfer {
 public:
  bool brings_prompts() const override { return true; }
  void connect_engine(std::function<void(TransferEvent)> post) override { post_ = std::move(post); }
  void begin(const Generation& generation, std::span<const kv::BlockId>) override {
    const std::lock_guard lock(mutex_);
    if (std::find(begun_.begin(), begun_.end(), generation.id) == begun_.end()) begun_.push_back(generation.id);
    changed_.notify_all();
  }
  void layer_stored(int, std::span<const scheduler::PassItem>) override { std::abort(); }
  void end(scheduler::RequestId id, const Status&) override { post_({.kind = Kind::kReleased, .request = id}); }

  /// Waits until the request was admitted.
  void tell(std::size_t request, TransferEvent event) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() > request; });
    event.request = begun_[request];
    lock.unlock();
    post_(std::move(event));
  }
  void first_token(std::size_t request, std::int32_t token, bool same_numerics = true,
                   TransferMode mode = TransferMode::kProgressiveExact) {
    tell(request, {.kind = Kind::kFirstTokens,
                   .first_tokens = {{.id = token, .logprob = 0, .top = {}}},
                   .same_numerics = same_numerics,
                   .mode = mode});
  }
  void anchored(std::size_t request, const quant::PlaneProfile& profile = {}) {
    tell(request, {.kind = Kind::kAnchored, .profile = std::make_shared<const quant::PlaneProfile>(profile)});
  }
  void arrived(std::size_t request, TransferMode mode = TransferMode::kProgressiveExact) {
    tell(request, {.kind = Kind::kArrived, .mode = mode});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<scheduler::RequestId> begun_;
  std::function<void(TransferEvent)> post_;
};

/// Of a request with one choice.
class Sink final : public UpdateSink {
 public:
  struct Seen {
    std::vector<std::int32_t> tokens;
    Provisional drafts;  ///< The last ones shown.
    Receipt receipt;
    Status error;
    bool finished = false;
  };
  void on_update(GenerationUpdate update) override {
    const std::lock_guard lock(mutex_);
    for (ChoiceUpdate& more : update.choices) {
      for (const TokenOutput& token : more.tokens) seen_.tokens.push_back(token.id);
      if (more.provisional) seen_.drafts = std::move(*more.provisional);
    }
    if (update.receipt) seen_.receipt = *update.receipt;
    seen_.error = update.error;
    seen_.finished = update.finished;
    changed_.notify_all();
  }
  Seen wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return seen_.finished; });
    return seen_;
  }
  void wait_for_drafts(std::size_t drafts) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return seen_.drafts.tokens.size() >= drafts || seen_.finished; });
  }
  Seen now() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
};

struct DecodeWorld {
  ThreadPool pool{1};
  Script script;
  CountingRunner* runner = nullptr;
  std::unique_ptr<LoopEngine> engine;  // Last: it goes before what it uses.

  DecodeWorld() {
    auto made = std::make_unique<CountingRunner>();
    runner = made.get();
    EngineOptions options;
    options.transfer = &script;
    auto created = LoopEngine::create(
        options, std::move(made), [](std::int32_t) { return std::string_view("x"); }, &pool);
    REQUIRE(created.ok());
    engine = std::move(created).value();
  }
  std::shared_ptr<Sink> submit(const std::string& id, int max_tokens, std::vector<std::string> stop = {}) {
    GenerateRequest request;
    request.request_id = id;
    request.prompt.assign(kPromptTokens, 1);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.stop = std::move(stop);
    request.provisional = true;
    request.receipt = true;
    auto sink = std::make_shared<Sink>();
    REQUIRE(engine->submit(std::move(request), sink).ok());
    return sink;
  }
};

using Tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("a first token that another prefill node chooses otherwise is an error only where both have this node's numerics") {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      CAPTURE(first, second);
      DecodeWorld world;
      const auto sink = world.submit("r", 4);
      world.script.first_token(0, 5, first);
      world.script.anchored(0);
      sink->wait_for_drafts(2);
      world.script.tell(0, {.kind = Kind::kAnchorsLost});  // Its node died; another one computes the prompt.
      world.script.first_token(0, 6, second);
      if (!first || !second) world.script.arrived(0);
      const Sink::Seen seen = sink->wait();
      CHECK(seen.error.code() == (first && second ? Code::kInternal : Code::kOk));
      CHECK(seen.tokens == (first && second ? Tokens{5} : Tokens{5, 6, 7, 8}));
    }
  }
}

// Fails where a draft that differs from the end token counts as not tried.
TEST_CASE("a choice that ends with a token that differs from its draft has tried that draft") {
  DecodeWorld world;
  world.runner->exact = {{51, kEnd}};
  world.runner->on_anchors = {{51, 52}};
  const auto sink = world.submit("r", 4);
  world.script.first_token(0, 50);
  world.script.anchored(0);
  sink->wait_for_drafts(2);
  CHECK(sink->now().drafts.tokens == Tokens{51, 52});
  world.script.arrived(0);
  const Sink::Seen seen = sink->wait();
  CHECK(seen.tokens == Tokens{50, 51});  // The end token is not shown.
  CHECK(seen.receipt.accepted == 1);
  CHECK(seen.receipt.verified_s >= seen.receipt.anchors_s);
  scheduler::DraftBudget budget(64);
  budget.verified(2, 1);
  CHECK(world.engine->stats().draft_acceptance == budget.acceptance());
}

TEST_CASE("drafts behind a choice's end were not tried") {
  DecodeWorld world;
  const auto sink = world.submit("r", 12, {"xx"});
  world.script.first_token(0, 50);
  world.script.anchored(0);
  sink->wait_for_drafts(10);
  world.script.arrived(0);
  CHECK(sink->wait().receipt.accepted == 1);
  scheduler::DraftBudget budget(64);
  budget.verified(1, 1);
  CHECK(world.engine->stats().draft_acceptance == budget.acceptance());
}

TEST_CASE("nothing is drafted behind a drafted end token, and its text is not shown") {
  DecodeWorld world;
  world.runner->exact = {{51, kEnd}};
  const auto short_one = world.submit("short", 40);
  const auto long_one = world.submit("long", 14);
  for (const std::size_t request : {0U, 1U}) world.script.first_token(request, request == 0 ? 50 : 10);
  for (const std::size_t request : {0U, 1U}) world.script.anchored(request);
  long_one->wait_for_drafts(12);  // All that it may; the other one could draft in the same passes.
  CHECK(short_one->now().drafts.tokens == Tokens{51, kEnd});
  CHECK(short_one->now().drafts.text == "x");
  for (const std::size_t request : {0U, 1U}) world.script.arrived(request);
  const Sink::Seen seen = short_one->wait();
  CHECK(seen.tokens == Tokens{50, 51});
  CHECK(seen.receipt.drafted == 2);
  CHECK(seen.receipt.accepted == 2);
  CHECK(long_one->wait().receipt.accepted == 12);
}

// A pass reads all Anchors by one profile.
TEST_CASE("requests draft at the same time only on Anchors of one profile") {
  const quant::PlaneProfile one{.wide_k = {true, false}};
  const quant::PlaneProfile other{.wide_k = {false, true}};
  DecodeWorld world;
  std::vector<std::shared_ptr<Sink>> sinks;
  for (const char* id : {"a", "b", "c"}) sinks.push_back(world.submit(id, 10));
  for (const std::size_t request : {0U, 1U, 2U}) world.script.first_token(request, 20);
  world.script.anchored(0, one);
  world.script.anchored(1, other);
  world.script.anchored(2, one);  // Equal, though not the same.
  for (const std::size_t request : {0U, 2U}) sinks[request]->wait_for_drafts(8);
  CHECK(sinks[1]->now().drafts.tokens.empty());
  world.script.arrived(0);
  world.script.tell(2, {.kind = Kind::kAnchorsLost});
  CHECK(sinks[0]->wait().receipt.accepted == 8);
  sinks.push_back(world.submit("d", 10));
  world.script.first_token(3, 20);
  world.script.anchored(3, other);
  sinks[3]->wait_for_drafts(8);
  for (const std::size_t request : {1U, 2U, 3U}) world.script.arrived(request);
  CHECK(sinks[1]->wait().receipt.drafted == 0);
  CHECK(sinks[2]->wait().receipt.rolled_back == 8);
  CHECK(sinks[3]->wait().receipt.accepted == 8);
  for (const auto& sink : sinks) CHECK(sink->wait().tokens == Tokens{20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
}

TEST_CASE("an answer of first tokens alone was chosen on exact values, whatever the transfer") {
  for (const int max_tokens : {1, 2}) {
    CAPTURE(max_tokens);
    DecodeWorld world;
    const auto sink = world.submit("r", max_tokens);
    world.script.first_token(0, 5, true, TransferMode::kInt4);
    if (max_tokens > 1) world.script.arrived(0, TransferMode::kInt4);
    const Sink::Seen seen = sink->wait();
    CHECK(seen.receipt.transfer == TransferMode::kInt4);
    CHECK(seen.receipt.verified == (max_tokens == 1 ? FullView::kExact : FullView::kAnchor));
  }
}
