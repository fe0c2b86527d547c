// The engine over the real model: what runs beside a request, preemption and cancellation change no bit of its answer.

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

#include <spdlog/fmt/fmt.h>

#include "tests/catch.h"
#include "tests/server/engine_fake.h"
#include "tests/server/engine_reference.h"

using namespace lynx;
using namespace lynx::server;

namespace {

const std::string kSentence = "The river runs past the old mill, and nobody in the village remembers who built it. ";

// Loaded once for all tests here.
struct LoadedModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

std::string model_path() {
  if (const char* path = std::getenv("LYNX_TEST_MODEL")) return path;
  return ".models/SmolLM2-135M-Instruct.Q4_1.gguf";  // Tests run in the repository's root.
}

LoadedModel load() {
  LoadedModel loaded;
  auto file = model::ModelFile::open(model_path());
  if (!file.ok()) FAIL(file.status().to_string());
  loaded.pool = std::make_unique<ThreadPool>(2);
  auto model = model::Model::load(**file, *choose_isa("auto"), loaded.pool.get());
  if (!model.ok()) FAIL(model.status().to_string());
  loaded.model = std::move(model).value();
  auto tokenizer = text::Tokenizer::create((*file)->tokenizer());
  if (!tokenizer.ok()) FAIL(tokenizer.status().to_string());
  loaded.tokenizer = std::make_unique<text::Tokenizer>(std::move(tokenizer).value());
  return loaded;
}

LoadedModel& loaded() {
  static LoadedModel instance = load();
  return instance;
}

std::unique_ptr<LoopEngine> make_engine(EngineOptions options, int kv_blocks) {
  options.kv_memory_bytes = kv::KvCache::block_bytes(loaded().model->kv_shape()) * kv_blocks;
  auto engine = LoopEngine::create(options, loaded().model.get(), loaded().tokenizer.get(), loaded().pool.get());
  REQUIRE(engine.ok());
  return std::move(engine).value();
}

GenerateRequest make_request(std::string id, std::string_view prompt, int max_tokens) {
  GenerateRequest request;
  request.request_id = std::move(id);
  request.prompt = loaded().tokenizer->encode(prompt, false).value();
  request.max_tokens = max_tokens;
  request.sampling.seed = 1234;
  return request;
}

Collected answer(Engine& engine, const GenerateRequest& request) {
  auto sink = std::make_shared<CollectingSink>(request.choices);
  REQUIRE(engine.submit(request, sink).ok());
  return sink->wait();
}

std::vector<std::shared_ptr<CollectingSink>> submit_all(Engine& engine, const std::vector<GenerateRequest>& requests) {
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const GenerateRequest& request : requests) {
    sinks.push_back(std::make_shared<CollectingSink>(request.choices));
    REQUIRE(engine.submit(request, sinks.back()).ok());
  }
  return sinks;
}

// Greedy and sampled, short and long, with penalties, logprobs, stops, choices and scored prompts.
std::vector<GenerateRequest> mixed_requests() {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 16; ++i) {
    std::string prompt = fmt::format("Story number {}. ", i);
    for (int repeat = 0; repeat < (i * 5) % 9; ++repeat) prompt += kSentence;
    GenerateRequest request = make_request(fmt::format("mixed-{}", i), prompt, 4 + (i * 7) % 16);
    request.sampling.seed = static_cast<std::uint64_t>(100 + i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    if (i % 5 == 1) request.sampling.top_p = 0.8F;
    if (i % 5 == 2) request.sampling.repetition_penalty = 1.3F;
    if (i % 4 == 3) request.top_logprobs = 3;
    if (i % 6 == 5) request.choices = 3;
    if (i % 7 == 6) request.stop = {" the", "\n"};
    if (i == 8) request.prompt_top_logprobs = 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace

TEST_CASE("the model answers a plain question") {
  const auto engine = make_engine({}, 64);
  GenerateRequest request = make_request("capital", "The capital of France is", 8);
  request.sampling.temperature = 0;
  CHECK_THAT(answer(*engine, request).choices[0].text, Catch::Contains("Paris"));
}

TEST_CASE("sixteen mixed requests at once: every answer equals the one alone, whatever the chunks") {
  const std::vector<GenerateRequest> requests = mixed_requests();
  std::vector<Collected> alone;
  {
    const auto engine = make_engine({}, 128);
    for (const GenerateRequest& request : requests) alone.push_back(answer(*engine, request));
  }
  for (const int chunk_rows : {256, 37}) {
    EngineOptions options;
    options.chunk_rows_beside_decodes = chunk_rows;
    const auto engine = make_engine(options, 256);
    const auto sinks = submit_all(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      INFO(requests[i].request_id << ", chunks of " << chunk_rows);
      CHECK(difference(alone[i], sinks[i]->wait()) == "");
    }
  }
}

TEST_CASE("preemption in a pool that is too small changes no answer") {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 4; ++i) {
    // Prompts that nearly fill a block: each answer comes to need three.
    requests.push_back(make_request(fmt::format("preempted-{}", i),
                                    fmt::format("{} little ducks went out one day. ", i + 2) + kSentence + kSentence + kSentence,
                                    72));
    requests.back().ignore_eos = true;
    requests.back().top_logprobs = 0;
    requests.back().choices = i == 2 ? 2 : 1;
    requests.back().sampling.temperature = i == 1 ? 0.0F : 0.8F;
  }
  std::vector<Collected> alone;
  {
    const auto engine = make_engine({}, 64);
    for (const GenerateRequest& request : requests) alone.push_back(answer(*engine, request));
  }
  const auto engine = make_engine({}, 10);
  const auto sinks = submit_all(*engine, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO(requests[i].request_id);
    CHECK(difference(alone[i], sinks[i]->wait()) == "");
  }
  CHECK(engine->stats().preemptions_total > 0);
  CHECK(engine->stats().free_blocks == engine->stats().total_blocks);
}

TEST_CASE("300 requests, a third of them cancelled at random: no block is lost, and a probe is answered as before") {
  constexpr unsigned kSeed = 20;
  std::mt19937 random(kSeed);
  EngineOptions options;
  options.max_running = 32;
  const auto engine = make_engine(options, 48);
  GenerateRequest probe = make_request("probe", "Once upon a time", 12);
  const Collected before = answer(*engine, probe);

  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 300; ++i) {
    requests.push_back(
        make_request(fmt::format("crowd-{}", i), fmt::format("Question {}: what is {} + {}?", i, i, i * 3), 1 + i % 9));
    requests.back().choices = i % 10 == 0 ? 2 : 1;
  }
  const auto sinks = submit_all(*engine, requests);
  std::vector<bool> cancelled(requests.size(), false);
  for (std::size_t done = 0; done < requests.size() / 3; ++done) {
    const std::size_t victim = random() % requests.size();
    // Some at once, while queued; some when their neighbours have made progress.
    if (done % 4 == 0) sinks[victim / 2]->wait_for_tokens(1);
    engine->cancel(requests[victim].request_id);
    cancelled[victim] = true;
  }
  int ended_by_cancel = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Collected got = sinks[i]->wait();
    CHECK(got.broken.empty());
    if (got.error.ok()) continue;
    CHECK(got.error.code() == Code::kCancelled);
    CHECK(cancelled[i]);
    ++ended_by_cancel;
  }
  CHECK(ended_by_cancel > 20);
  CHECK(engine->stats().free_blocks == engine->stats().total_blocks);
  CHECK(engine->stats().running + engine->stats().waiting == 0);
  CHECK(difference(before, answer(*engine, probe)) == "");
}
