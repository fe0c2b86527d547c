#include "server/pair_messages.h"

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "tests/catch.h"

using namespace lynx;
using namespace lynx::server;

namespace {

constexpr int kVocabulary = 1000;

std::unique_ptr<Generation> generation_of(GenerateRequest request, kv::BlockPool* pool) {
  auto made = make_generation(std::move(request), nullptr, {}, kVocabulary, 8192, pool);
  INFO(made.status().to_string());
  REQUIRE(made.ok());
  return std::move(made).value();
}

GenerateRequest full_request() {
  GenerateRequest request;
  request.request_id = "r";
  request.prompt = {5, 6, 7};
  request.sampling = {.temperature = 0.7F,
                      .top_k = 40,
                      .top_p = 0.9F,
                      .min_p = 0.05F,
                      .repetition_penalty = 1.1F,
                      .frequency_penalty = -0.5F,
                      .presence_penalty = 0.25F,
                      .logit_bias = {{3, -100.0F}, {4, 12.5F}},
                      .min_tokens = 3,
                      .seed = 0xfedcba9876543210ULL};
  request.max_tokens = 50;
  request.choices = 3;
  request.stop_token_ids = {9, 8};
  request.ignore_eos = true;
  request.top_logprobs = 4;
  request.prompt_top_logprobs = 2;
  return request;
}

v1::Ticket full_ticket() {
  kv::BlockPool pool(4);
  v1::Ticket ticket = make_ticket(*generation_of(full_request(), &pool));
  ticket.set_number(77);
  ticket.set_secret(std::string(16, 's'));
  ticket.set_transfer("lossless");
  return ticket;
}

}  // namespace

TEST_CASE("a ticket carries everything that the first token depends on") {
  const v1::Ticket ticket = full_ticket();
  CHECK(ticket.cache());
  const auto request = request_of(ticket);
  REQUIRE(request.ok());
  const GenerateRequest original = full_request();
  CHECK(request->prompt == original.prompt);
  CHECK(request->max_tokens == 1);
  CHECK(request->choices == original.choices);
  CHECK(request->stop_token_ids == original.stop_token_ids);
  CHECK(request->ignore_eos == original.ignore_eos);
  CHECK(request->top_logprobs == original.top_logprobs);
  CHECK(request->prompt_top_logprobs == original.prompt_top_logprobs);
  CHECK(request->transfer == TransferMode::kLossless);
  const model::SamplingParams& a = request->sampling;
  const model::SamplingParams& b = original.sampling;
  CHECK(std::tie(a.temperature, a.top_k, a.top_p, a.min_p, a.repetition_penalty, a.frequency_penalty, a.presence_penalty) ==
        std::tie(b.temperature, b.top_k, b.top_p, b.min_p, b.repetition_penalty, b.frequency_penalty, b.presence_penalty));
  CHECK(a.logit_bias == b.logit_bias);
  CHECK(a.min_tokens == b.min_tokens);
  CHECK(a.seed == b.seed);
}

TEST_CASE("no cache is asked for where the first tokens are all there will be") {
  kv::BlockPool pool(4);
  GenerateRequest request = full_request();
  request.max_tokens = 1;
  CHECK_FALSE(make_ticket(*generation_of(request, &pool)).cache());
  request.max_tokens = 0;
  const v1::Ticket scored = make_ticket(*generation_of(request, &pool));
  CHECK_FALSE(scored.cache());
  CHECK_FALSE(scored.sample());
}

TEST_CASE("a ticket that no decode node would send is refused by field") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, std::function<void(v1::Ticket&)>>> changes{
      {"secret", [](auto& t) { t.set_secret("short"); }},
      {"transfer", [](auto& t) { t.set_transfer("fp8"); }},
      {"top_logprobs", [](auto& t) { t.set_top_logprobs(-2); }},
      {"prompt_top_logprobs", [](auto& t) { t.set_prompt_top_logprobs(1 << 30); }},
      {"choices", [](auto& t) { t.set_choices(0); }},
      {"choices", [](auto& t) { t.set_choices(std::numeric_limits<std::int32_t>::max()); }},
      {"temperature", [nan](auto& t) { t.mutable_sampling()->set_temperature(nan); }},
      {"top_k", [](auto& t) { t.mutable_sampling()->set_top_k(-1); }},
      {"top_p", [](auto& t) { t.mutable_sampling()->set_top_p(1.5F); }},
      {"min_p", [nan](auto& t) { t.mutable_sampling()->set_min_p(nan); }},
      {"repetition_penalty", [](auto& t) { t.mutable_sampling()->set_repetition_penalty(0); }},
      {"frequency_penalty", [](auto& t) { t.mutable_sampling()->set_frequency_penalty(INFINITY); }},
      {"presence_penalty", [nan](auto& t) { t.mutable_sampling()->set_presence_penalty(nan); }},
      {"logit_bias", [](auto& t) { t.mutable_sampling()->mutable_logit_bias(0)->set_bias(INFINITY); }},
      {"min_tokens", [](auto& t) { t.mutable_sampling()->set_min_tokens(-5); }},
  };
  for (const auto& [field, change] : changes) {
    v1::Ticket ticket = full_ticket();
    change(ticket);
    const auto request = request_of(ticket);
    CAPTURE(field);
    REQUIRE_FALSE(request.ok());
    CHECK(request.status().message().find(field) != std::string::npos);
  }
}

TEST_CASE("first tokens come back bit for bit, and only if they fit to their ticket") {
  GenerationUpdate update;
  update.prompt_tokens = {{.id = 5, .logprob = 0, .top = {}},
                          {.id = 6, .logprob = -0.1F, .top = {{1, -0.5F}, {2, -9999.0F}}},
                          {.id = 7, .logprob = -1e-30F, .top = {{3, -0.0F}, {4, -2.0F}}}};
  for (int choice : {2, 0, 1}) {
    ChoiceUpdate& one = update.choices.emplace_back();
    one.choice = choice;
    one.tokens = {{.id = 10 + choice, .logprob = -0.3F, .top = {{8, -1.5F}}}};
  }
  const v1::Ticket ticket = full_ticket();
  const v1::FirstTokens message = make_first_tokens(77, update);
  const auto outputs = outputs_of(message, ticket, kVocabulary);
  REQUIRE(outputs.ok());
  REQUIRE(outputs->tokens.size() == 3);
  for (int choice = 0; choice < 3; ++choice) CHECK(outputs->tokens[static_cast<std::size_t>(choice)].id == 10 + choice);
  REQUIRE(outputs->prompt_scores.size() == 2);
  CHECK(outputs->prompt_scores[1].logprob == -1e-30F);
  CHECK(std::signbit(outputs->prompt_scores[1].top[0].logprob));

  const std::vector<std::function<void(v1::FirstTokens&)>> damages{
      [](auto& m) { m.mutable_tokens()->RemoveLast(); },
      [](auto& m) { m.mutable_prompt_scores()->RemoveLast(); },
      [](auto& m) { m.mutable_tokens(0)->set_id(kVocabulary); },
      [](auto& m) { m.mutable_tokens(1)->set_id(-1); },
      [](auto& m) { m.mutable_tokens(2)->add_top_ids(3); },
      [](auto& m) { m.mutable_prompt_scores(0)->set_top_ids(0, kVocabulary); },
      [](auto& m) {
        for (int i = 0; i < 9; ++i) m.mutable_tokens(0)->add_top_ids(1), m.mutable_tokens(0)->add_top_logprobs(0);
      },
  };
  for (const auto& damage : damages) {
    v1::FirstTokens damaged = message;
    damage(damaged);
    CHECK(outputs_of(damaged, ticket, kVocabulary).status().code() == Code::kInternal);  // Not the client's fault.
  }
}

TEST_CASE("an error keeps its code and its words; an unknown code is an internal error") {
  for (const Code code :
       {Code::kInvalidArgument, Code::kResourceExhausted, Code::kUnavailable, Code::kCancelled, Code::kInternal}) {
    const Status status = status_of(make_error(1, {code, "why"}));
    CHECK(status.code() == code);
    CHECK(status.message() == "why");
  }
  v1::TicketError error;
  error.set_code("OK");
  CHECK(status_of(error).code() == Code::kInternal);
  error.set_code(std::string(100'000, 'x'));
  std::string words = "x";
  while (words.size() < 100'000) words += "é";
  error.set_message(words);
  const std::string kept = status_of(error).message();
  CHECK(kept.size() < 1100);
  CHECK(kept.starts_with("xéé"));
  CHECK(kept.find("é (xxx") != std::string::npos);  // No half character.
}
