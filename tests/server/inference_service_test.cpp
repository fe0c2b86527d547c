#include "server/inference_service.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/server/grpc_front_fixture.h"

namespace lynx::server {
namespace {

using testing::eventually;
using testing::FakeEngine;
using testing::GrpcFront;
using testing::text_request;

GenerationUpdate text_update(std::string text) {
  GenerationUpdate update;
  update.choices.emplace_back().text = std::move(text);
  return update;
}

/// `count` updates of `bytes` bytes of text each.
FakeEngine::Script long_answer(int count, std::size_t bytes) {
  return [=](const GenerateRequest&) {
    std::vector<GenerationUpdate> updates;
    for (int i = 0; i < count; ++i) {
      GenerationUpdate& update = updates.emplace_back(text_update(std::string(bytes, 'x')));
      if (i + 1 < count) continue;
      update.choices[0].finish = FinishReason::kStop;
      update.finished = true;
    }
    return updates;
  };
}

}  // namespace

TEST_CASE("deltas of a text prompt add up to the answer") {
  GrpcFront front;
  v1::GenerateRequest request = text_request("hello", 3);
  request.set_n(2);
  request.set_top_logprobs(1);
  const auto answer = front.generate(request);
  REQUIRE(answer.status.ok());
  CHECK(answer.texts == std::vector<std::string>{"hel", "hel"});
  CHECK(answer.finishes == std::vector<v1::FinishReason>{v1::FINISH_REASON_LENGTH, v1::FINISH_REASON_LENGTH});
  REQUIRE(answer.tokens[1].size() == 3);
  CHECK(answer.tokens[1][2].id() == 'l');
  CHECK(answer.tokens[1][2].logprob() == -0.25F);
  CHECK(answer.tokens[1][2].top_logprobs_size() == 2);
  CHECK(answer.tokens[1][2].text_offset() == 2);
  CHECK(answer.messages.front().id().starts_with("cmpl-"));
  CHECK(answer.messages.front().model() == "tiny");
  for (std::size_t i = 0; i < answer.messages.size(); ++i) {
    CHECK(answer.messages[i].has_usage() == (i + 1 == answer.messages.size()));
    CHECK(answer.messages[i].id().empty() == (i > 0));
  }
  CHECK(answer.messages.back().usage().prompt_tokens() == 5);
  CHECK(answer.messages.back().usage().completion_tokens() == 6);
  CHECK(front.idle());
}

TEST_CASE("tokens and messages are prompts too") {
  GrpcFront front;
  v1::GenerateRequest request;
  for (const char c : {'a', 'b'}) request.mutable_tokens()->add_ids(c);
  CHECK(front.generate(request).texts == std::vector<std::string>{"ab"});
  auto* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  const auto answer = front.generate(request);
  REQUIRE(answer.status.ok());
  CHECK(answer.messages.front().id().starts_with("chatcmpl-"));
  CHECK(front.engine->last_request().prompt.front() == testing::kTurnToken);
  CHECK(front.engine->last_request().max_tokens == 256 - static_cast<int>(front.engine->last_request().prompt.size()));
}

TEST_CASE("an echo comes first, with the prompt's scores") {
  GrpcFront front;
  v1::GenerateRequest request = text_request("äb", 2);
  request.set_echo(true);
  request.set_top_logprobs(1);
  const auto answer = front.generate(request);
  REQUIRE(answer.status.ok());
  CHECK(answer.texts[0].starts_with("äb"));
  REQUIRE(answer.tokens[0].size() == 5);
  CHECK_FALSE(answer.tokens[0][0].has_logprob());
  CHECK(answer.tokens[0][1].logprob() == -0.5F);
  CHECK(answer.tokens[0][3].logprob() == -0.25F);
  CHECK(answer.tokens[0][3].text_offset() == 2);
}

TEST_CASE("what the engine says becomes the status") {
  GrpcFront front;
  const auto code_for = [&](Status status) {
    front.engine->fail_next_submit(std::move(status));
    return front.generate(text_request("hi")).status;
  };
  CHECK(code_for({Code::kUnavailable, "the queue is full"}).error_code() == grpc::StatusCode::UNAVAILABLE);
  const grpc::Status never = code_for({Code::kResourceExhausted, "needs 9 blocks, there are 4"});
  CHECK(never.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(never.error_message() == "needs 9 blocks, there are 4");
  front.engine->set_script([](const GenerateRequest&) {
    std::vector<GenerationUpdate> updates{text_update("begun"), {}};
    updates[1].finished = true;
    updates[1].error = internal_error("a kernel failed");
    return updates;
  });
  const auto answer = front.generate(text_request("hi"));
  CHECK(answer.texts == std::vector<std::string>{"begun"});
  CHECK(answer.status.error_code() == grpc::StatusCode::INTERNAL);
  CHECK(answer.status.error_message() == "a kernel failed");
  v1::GenerateRequest request = text_request("hi");
  request.set_temperature(3);
  const grpc::Status invalid = front.generate(request).status;
  CHECK(invalid.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(invalid.error_message().starts_with("temperature: "));
  request.set_model("other");
  CHECK(front.generate(request).status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(front.generate(text_request(std::string(std::size_t{9} << 20, 'x'))).status.error_code() ==
        grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(front.idle());
}

TEST_CASE("loading and draining are UNAVAILABLE, and what runs goes on") {
  GrpcFront front({.loaded = false});
  CHECK(front.generate(text_request("hi")).status.error_message() == "the model is still loading");
  front.load();
  front.engine->pause(true);
  grpc::ClientContext context;
  const auto running = front.stub->Generate(&context, text_request("hi"));
  REQUIRE(eventually([&] { return front.engine->live() == 1; }));
  front.inference->begin_drain();
  const grpc::Status refused = front.generate(text_request("hi")).status;
  CHECK(refused.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(refused.error_message() == "the server is shutting down");
  front.engine->pause(false);
  std::string text;
  for (v1::GenerateResponse message; running->Read(&message);) {
    if (message.choices_size() > 0) text += message.choices(0).text();
  }
  CHECK(text == "hi");
  CHECK(running->Finish().ok());
}

TEST_CASE("API keys are asked for") {
  GrpcFront front({.api_keys = {"secret-one", "two"}});
  const auto code_with = [&](const std::string& authorization) {
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    return front.generate(text_request("hi"), &context).status.error_code();
  };
  for (const char* bad : {"", "Bearer", "Bearer secret-on", "Basic two", "two"}) {
    CHECK(code_with(bad) == grpc::StatusCode::UNAUTHENTICATED);
  }
  CHECK(code_with("Bearer secret-one") == grpc::StatusCode::OK);
  CHECK(code_with("bearer two") == grpc::StatusCode::OK);
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  CHECK(front.stub->Tokenize(&context, {}, &response).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(front.engine->submitted_total() == 2);
}

TEST_CASE("the request id goes to the engine and comes back") {
  GrpcFront front;
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "abc-1");
  REQUIRE(front.generate(text_request("hi"), &context).status.ok());
  CHECK(context.GetServerInitialMetadata().find("x-request-id")->second == "abc-1");
  CHECK(front.engine->last_request().request_id.starts_with("abc-1/"));
}

TEST_CASE("cancel and deadline end the engine's request, queued or in mid-stream") {
  GrpcFront front;
  front.engine->pause(true);
  int ended = 0;
  for (const bool begun : {false, true}) {
    grpc::ClientContext cancelled;
    const auto reader = front.stub->Generate(&cancelled, text_request("hello"));
    REQUIRE(eventually([&] { return front.engine->live() == 1; }));
    v1::GenerateResponse message;
    if (begun) {
      front.engine->step(1);
      REQUIRE(reader->Read(&message));
    }
    cancelled.TryCancel();
    while (reader->Read(&message)) {
    }
    CHECK(reader->Finish().error_code() == grpc::StatusCode::CANCELLED);
    CHECK(front.idle());
    CHECK(front.engine->cancelled_total() == ++ended);

    grpc::ClientContext late;
    late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    CHECK(front.generate(text_request("hello"), &late).status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
    CHECK(front.idle());
    ended = front.engine->cancelled_total();
  }
}

TEST_CASE("a reader that is too slow is cut off, and nobody else") {
  GrpcFront front;
  front.engine->set_script(long_answer(1000, std::size_t{64} << 10));
  front.engine->pause(true);
  grpc::ClientContext context;
  const auto slow = front.stub->Generate(&context, text_request("hi"));
  REQUIRE(eventually([&] {
    front.engine->step(1);
    return front.engine->cancelled_total() == 1;
  }));
  CHECK(front.idle());
  std::size_t bytes = 0;
  for (v1::GenerateResponse message; slow->Read(&message);) bytes += message.ByteSizeLong();
  CHECK_FALSE(slow->Finish().ok());
  CHECK(bytes < std::size_t{1000} * (std::size_t{64} << 10));
  front.engine->pause(false);
  // What fits into the buffer passes at any speed.
  front.engine->set_script(long_answer(60, std::size_t{16} << 10));
  const auto answer = front.generate(text_request("hi"));
  REQUIRE(answer.status.ok());
  CHECK(answer.texts[0].size() == std::size_t{60} * (std::size_t{16} << 10));
}

TEST_CASE("generations are aborted with a reason, and stop() with none waits for their end") {
  GrpcFront front;
  front.engine->pause(true);
  grpc::ClientContext first_context;
  const auto first = front.stub->Generate(&first_context, text_request("hello"));
  REQUIRE(eventually([&] { return front.engine->live() == 1; }));
  front.inference->abort_generations();
  v1::GenerateResponse message;
  CHECK_FALSE(first->Read(&message));
  const grpc::Status aborted = first->Finish();
  CHECK(aborted.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(aborted.error_message() == "the server is shutting down");
  CHECK(front.idle());

  grpc::ClientContext second_context;
  const auto second = front.stub->Generate(&second_context, text_request("hello"));
  REQUIRE(eventually([&] { return front.engine->live() == 1; }));
  front.server->stop();
  CHECK_FALSE(second->Read(&message));
  CHECK_FALSE(second->Finish().ok());
  CHECK(front.idle());
}

TEST_CASE("tokenize, detokenize and the model's facts") {
  GrpcFront front;
  const auto call = [&](auto method, const auto& request, auto* response) {
    grpc::ClientContext context;
    return (front.stub.get()->*method)(&context, request, response);
  };
  v1::TokenizeRequest tokenize;
  tokenize.set_text("hi");
  tokenize.set_with_pieces(true);
  v1::TokenizeResponse tokens;
  REQUIRE(call(&v1::Inference::Stub::Tokenize, tokenize, &tokens).ok());
  CHECK(std::vector<std::int32_t>(tokens.tokens().begin(), tokens.tokens().end()) == std::vector<std::int32_t>{'h', 'i'});
  CHECK(std::vector<std::string>(tokens.pieces().begin(), tokens.pieces().end()) == std::vector<std::string>{"h", "i"});
  CHECK(tokens.max_model_len() == 256);

  v1::DetokenizeRequest detokenize;
  detokenize.add_tokens('h');
  v1::DetokenizeResponse text;
  REQUIRE(call(&v1::Inference::Stub::Detokenize, detokenize, &text).ok());
  CHECK(text.text() == "h");
  detokenize.add_tokens(-1);
  const grpc::Status refused = call(&v1::Inference::Stub::Detokenize, detokenize, &text);
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(refused.error_message().starts_with("tokens[1]: "));

  v1::GetModelInfoResponse info;
  REQUIRE(call(&v1::Inference::Stub::GetModelInfo, v1::GetModelInfoRequest(), &info).ok());
  CHECK(info.names(1) == "org/tiny");
  CHECK(info.vocabulary() == 258);
  CHECK(info.eos_token() == testing::kEndToken);
  CHECK(info.chat());
  CHECK(front.idle());
}

TEST_CASE("calls are counted by method and code") {
  GrpcFront front;
  REQUIRE(front.generate(text_request("hi")).status.ok());
  v1::GenerateRequest request = text_request("hi");
  request.set_n(0);
  CHECK_FALSE(front.generate(request).status.ok());
  REQUIRE(front.idle());
  const std::string page = front.metrics.serialize(nullptr, {});
  CHECK(page.find(R"(lynx_server_grpc_requests_total{code="OK",method="Generate"} 1)") != std::string::npos);
  CHECK(page.find(R"(lynx_server_grpc_requests_total{code="INVALID_ARGUMENT",method="Generate"} 1)") != std::string::npos);
}

}  // namespace lynx::server
