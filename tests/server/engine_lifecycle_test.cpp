// A request's ends: cancelled in every state, refused, drained, shut down; and what metrics are told.

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "kv/block_pool.h"
#include "server/generation.h"
#include "tests/catch.h"
#include "tests/server/engine_fake.h"
#include "tests/server/engine_reference.h"

using namespace lynx;
using namespace lynx::server;

namespace {

GenerateRequest make_request(std::string id, int prompt, int max_tokens) {
  GenerateRequest request;
  request.request_id = std::move(id);
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(2 + i % 30);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.seed = 7;
  return request;
}

std::shared_ptr<CollectingSink> submit(Engine& engine, const GenerateRequest& request) {
  auto sink = std::make_shared<CollectingSink>(request.choices);
  REQUIRE(engine.submit(request, sink).ok());
  return sink;
}

void check_all_free(const Engine& engine) {
  const EngineStats stats = engine.stats();
  CHECK(stats.free_blocks == stats.total_blocks);
  CHECK(stats.running == 0);
  CHECK(stats.waiting == 0);
}

}  // namespace

TEST_CASE("a request cancelled in any state ends with CANCELLED and gives everything back before the next pass") {
  ThreadPool pool(1);
  PassGate gate;
  EngineOptions options;
  options.max_running = 2;
  const auto engine = make_fake_engine(options, {.kv_blocks = 20, .max_rows = 64}, &pool, [&](const auto&) { gate.enter(); });

  SECTION("queued") {
    const auto a = submit(*engine, make_request("a", 10, 50));
    const auto b = submit(*engine, make_request("b", 10, 50));
    const auto c = submit(*engine, make_request("c", 10, 50));
    gate.wait_entered();
    engine->cancel("c");
    gate.let_one_pass();
    CHECK(c->wait().error.code() == Code::kCancelled);
    CHECK(c->wait().usage.completion_tokens == 0);
    engine->cancel("a");
    engine->cancel("b");
  }
  SECTION("in the middle of its prompt") {
    const auto a = submit(*engine, make_request("a", 300, 50));
    gate.wait_entered();
    gate.let_one_pass();
    gate.wait_entered();  // 64 of 300 positions are computed.
    engine->cancel("a");
    gate.let_one_pass();
    CHECK(a->wait().error.code() == Code::kCancelled);
    CHECK(a->wait().usage.completion_tokens == 0);
    check_all_free(*engine);
  }
  SECTION("decoding, with several choices") {
    GenerateRequest request = make_request("a", 70, 100);
    request.choices = 2;
    const auto a = submit(*engine, request);
    for (int pass = 0; pass < 10; ++pass) {
      gate.wait_entered();
      gate.let_one_pass();
    }
    gate.wait_entered();
    engine->cancel("a");
    engine->cancel("a");
    engine->cancel("nobody");
    gate.let_one_pass();
    CHECK(a->wait().error.code() == Code::kCancelled);
    CHECK(a->wait().usage.completion_tokens > 10);
    CHECK(a->wait().broken.empty());
    check_all_free(*engine);
  }
  gate.open();
}

TEST_CASE("a request cancelled while preempted ends, and its blocks stay free") {
  ThreadPool pool(1);
  PassGate gate;
  const auto engine = make_fake_engine({}, {.kv_blocks = 4, .max_rows = 64}, &pool, [&](const auto&) { gate.enter(); });
  const auto old = submit(*engine, make_request("old", 60, 150));
  const auto young = submit(*engine, make_request("young", 63, 80));
  while (engine->stats().preemptions_total == 0) {
    gate.wait_entered();
    gate.let_one_pass();
  }
  gate.wait_entered();
  CHECK(engine->stats().waiting == 1);
  engine->cancel("young");
  gate.open();
  const Collected cancelled = young->wait();
  CHECK(cancelled.error.code() == Code::kCancelled);
  CHECK(cancelled.usage.completion_tokens > 0);
  CHECK(difference(reference_answer(make_request("old", 60, 150), engine->max_model_len()), old->wait()) == "");
  check_all_free(*engine);
}

TEST_CASE("a sink may cancel its own request from inside the update") {
  ThreadPool pool(1);
  const auto engine = make_fake_engine({}, {}, &pool);
  const GenerateRequest request = make_request("a", 10, 300);
  auto sink = std::make_shared<CollectingSink>(1);
  sink->on_each = [&](const GenerationUpdate&) { engine->cancel("a"); };
  REQUIRE(engine->submit(request, sink).ok());
  const Collected got = sink->wait();
  CHECK(got.error.code() == Code::kCancelled);
  CHECK(got.usage.completion_tokens < 300);
  check_all_free(*engine);
}

TEST_CASE("overload, duplicates and impossible requests are refused at once and named") {
  ThreadPool pool(1);
  PassGate gate;
  EngineOptions options;
  options.max_running = 1;
  options.max_waiting = 2;
  const auto engine = make_fake_engine(options, {.context = 512, .kv_blocks = 4}, &pool, [&](const auto&) { gate.enter(); });
  CHECK(engine->max_model_len() == 256);  // What four blocks hold.
  const auto a = submit(*engine, make_request("a", 10, 5));
  gate.wait_entered();
  const auto b = submit(*engine, make_request("b", 10, 5));
  const auto c = submit(*engine, make_request("c", 10, 5));
  auto unused = std::make_shared<CollectingSink>(1);
  const auto refusal = [&](GenerateRequest request) { return engine->submit(std::move(request), unused); };

  const Status full = refusal(make_request("d", 10, 5));
  CHECK(full.code() == Code::kUnavailable);
  CHECK_THAT(full.message(), Catch::Contains("2 requests are waiting"));

  const Status duplicate = refusal(make_request("a", 10, 5));
  CHECK(duplicate.code() == Code::kInvalidArgument);
  CHECK_THAT(duplicate.message(), Catch::Contains("'a'"));

  GenerateRequest many = make_request("e", 10, 5);
  many.choices = 2;
  CHECK(refusal(many).code() == Code::kResourceExhausted);

  const Status long_prompt = refusal(make_request("f", 256, 1));
  CHECK(long_prompt.code() == Code::kInvalidArgument);
  CHECK_THAT(long_prompt.message(), Catch::Contains("256"));

  GenerateRequest outside = make_request("g", 10, 5);
  outside.prompt.push_back(fake_vocabulary());
  CHECK(refusal(outside).code() == Code::kInvalidArgument);
  CHECK(refusal(make_request("h", 10, 0)).code() == Code::kInvalidArgument);

  gate.open();
  for (const auto& sink : {a, b, c}) CHECK(sink->wait().error.ok());
  CHECK(submit(*engine, make_request("a", 10, 5))->wait().error.ok());  // The id is free again.
  check_all_free(*engine);
}

TEST_CASE("draining refuses new requests and finishes the running ones") {
  ThreadPool pool(1);
  PassGate gate;
  const auto engine = make_fake_engine({}, {}, &pool, [&](const auto&) { gate.enter(); });
  const auto a = submit(*engine, make_request("a", 10, 40));
  gate.wait_entered();
  engine->begin_drain();
  CHECK(engine->stats().draining);
  auto unused = std::make_shared<CollectingSink>(1);
  CHECK(engine->submit(make_request("b", 10, 5), unused).code() == Code::kUnavailable);
  gate.open();
  CHECK(difference(reference_answer(make_request("a", 10, 40), 512), a->wait()) == "");
  check_all_free(*engine);
}

TEST_CASE("ending the engine fails live requests with UNAVAILABLE, waiting ones too") {
  ThreadPool pool(1);
  PassGate gate;
  EngineOptions options;
  options.max_running = 1;
  // Passes take their time: the requests are still live when the engine ends, whichever thread is first.
  auto engine = make_fake_engine(options, {}, &pool, [&](const auto&) {
    gate.enter();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  const auto a = submit(*engine, make_request("a", 10, 400));
  const auto b = submit(*engine, make_request("b", 10, 400));
  gate.wait_entered();
  std::thread opener([&] { gate.open(); });
  engine.reset();
  opener.join();
  for (const auto& sink : {a, b}) CHECK(sink->wait().error.code() == Code::kUnavailable);
}

TEST_CASE("an absent seed is drawn once, so that all of a request's choices and replays belong together") {
  ThreadPool pool(1);
  const auto engine = make_fake_engine({}, {}, &pool);
  std::set<std::string> texts;
  for (int i = 0; i < 8; ++i) {
    GenerateRequest request = make_request("r", 10, 60);
    request.sampling.seed.reset();
    texts.insert(submit(*engine, request)->wait().choices[0].text);
  }
  CHECK(texts.size() == 8);
}

TEST_CASE("greedy choices are equal, sampled ones differ and repeat with the seed") {
  ThreadPool pool(1);
  const auto engine = make_fake_engine({}, {}, &pool);
  GenerateRequest request = make_request("r", 70, 60);
  request.choices = 3;
  const Collected sampled = submit(*engine, request)->wait();
  CHECK(sampled.choices[0].text != sampled.choices[1].text);
  CHECK(submit(*engine, request)->wait().choices[1].text == sampled.choices[1].text);
  request.sampling.temperature = 0;
  const Collected greedy = submit(*engine, request)->wait();
  CHECK(greedy.choices[0].text == greedy.choices[1].text);
  CHECK(greedy.choices[0].text == greedy.choices[2].text);
  CHECK(greedy.usage.prompt_tokens == 70);
  CHECK(greedy.usage.completion_tokens == 180);
}

namespace {

class CountingObserver final : public EngineObserver {
 public:
  void on_first_token(double ttft_s) override { first += ttft_s >= 0 ? 1 : 0; }
  void on_next_token(double since_last_s) override { next += since_last_s >= 0 ? 1 : 0; }
  void on_pass(int pass_rows, double) override { rows += pass_rows; }
  void on_request_end(const RequestReport& report) override {
    ended.emplace(report.request_id);
    ordered = ordered && report.queue_s >= 0 && report.ttft_s >= report.queue_s && report.total_s >= report.ttft_s;
    finish = report.finish;
  }
  int first = 0;
  int next = 0;
  int rows = 0;
  bool ordered = true;
  std::set<std::string> ended;
  std::optional<FinishReason> finish;
};

}  // namespace

TEST_CASE("metrics hear of every token, every row and every end") {
  ThreadPool pool(1);
  CountingObserver observer;
  EngineOptions options;
  options.observer = &observer;
  auto engine = make_fake_engine(options, {}, &pool);
  GenerateRequest request = make_request("a", 70, 20);
  request.choices = 2;
  submit(*engine, request)->wait();
  submit(*engine, make_request("b", 5, 1))->wait();
  const EngineStats stats = engine->stats();
  CHECK(stats.prompt_tokens_total == 75);
  CHECK(stats.generation_tokens_total == 41);
  engine.reset();
  CHECK(observer.first == 2);
  CHECK(observer.next == 38);
  CHECK(observer.rows == 70 + 2 * 19 + 5);
  CHECK(observer.ended == std::set<std::string>{"a", "b"});
  CHECK(observer.ordered);
  CHECK(observer.finish == FinishReason::kLength);
}

TEST_CASE("end tokens are kept once and in order, however the client lists them") {
  GenerateRequest request = make_request("a", 3, 5);
  request.ignore_eos = false;
  request.stop_token_ids = {5, 2, 5, 3, 2};
  kv::BlockPool blocks(1);
  const auto made = make_generation(request, nullptr, {3, 4}, fake_vocabulary(), 64, &blocks);
  REQUIRE(made.ok());
  CHECK((*made)->end_tokens == std::vector<std::int32_t>{2, 3, 4, 5});
}

TEST_CASE("a maximum that the client did not choose is lowered to what the KV memory holds for all choices") {
  ThreadPool pool(1);
  const auto engine = make_fake_engine({}, {.context = 512, .kv_blocks = 8}, &pool);
  GenerateRequest request = make_request("a", 10, 502);
  request.choices = 4;
  auto unused = std::make_shared<CollectingSink>(4);
  const Status refused = engine->submit(request, unused);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Catch::Contains("capacity is 8"));

  request.fit_max_tokens = true;
  const Collected got = submit(*engine, request)->wait();
  CHECK(got.error.ok());
  CHECK(got.usage.completion_tokens == 4 * (2 * 64 - 10 + 1));  // Two blocks each; the last token needs no room.
  for (const auto& choice : got.choices) CHECK(choice.finish == FinishReason::kLength);

  GenerateRequest long_prompt = make_request("b", 8 * 64 - 1, 1);
  long_prompt.choices = 2;
  long_prompt.fit_max_tokens = true;
  CHECK(submit(*engine, long_prompt)->wait().error.ok());
  long_prompt.choices = 100;
  const Status too_many = engine->submit(long_prompt, unused);
  CHECK(too_many.code() == Code::kResourceExhausted);
  check_all_free(*engine);
}

TEST_CASE("a prompt as long as the context can be scored") {
  ThreadPool pool(1);
  const auto engine = make_fake_engine({}, {.context = 128, .kv_blocks = 2}, &pool);
  GenerateRequest request = make_request("a", 128, 0);
  request.prompt_top_logprobs = 0;
  const Collected got = submit(*engine, request)->wait();
  CHECK(got.error.ok());
  CHECK(got.prompt_tokens.size() == 128);
  check_all_free(*engine);
}
