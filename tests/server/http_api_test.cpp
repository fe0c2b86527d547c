// The whole front with a fake engine behind it: routes, errors, answers, streams.

#include "server/http_api.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_front_fixture.h"

namespace lynx::server {
namespace {

using testing::events_of;
using testing::Front;
using testing::HttpClient;

Json json_of(const testing::ClientResponse& response) {
  return Json::parse(response.body);
}

std::string chat_body(const std::string& extra = {}, const std::string& content = "hi") {
  return R"({"messages":[{"role":"user","content":")" + content + "\"}]" + (extra.empty() ? "" : "," + extra) + "}";
}

}  // namespace

TEST_CASE("the small routes") {
  Front front;
  CHECK(json_of(front.get("/health"))["status"] == "ok");
  CHECK(front.get("/ping").status == 200);
  CHECK(json_of(front.get("/version"))["version"] == LYNX_VERSION);
  const Json models = json_of(front.get("/v1/models"));
  CHECK(models["object"] == "list");
  REQUIRE(models["data"].size() == 2);
  CHECK(dump_json(models["data"][0]) ==
        R"({"id":"tiny","object":"model","created":1700000000,"owned_by":"lynx","root":"tiny","max_model_len":256})");
  CHECK(json_of(front.get("/v1/models/tiny"))["id"] == "tiny");
  CHECK(json_of(front.get("/v1/models/org/tiny"))["id"] == "org/tiny");
  CHECK(json_of(front.get("/v1/models/org%2Ftiny"))["id"] == "org/tiny");
  CHECK(front.get("/v1/models/other").status == 404);
  CHECK(json_of(front.get("/tokenizer_info"))["eos_token"] == "<|end|>");
  CHECK(testing::fetch(front.port(), "HEAD", "/metrics").status == 200);
  CHECK(front.idle());
}

TEST_CASE("unknown paths and wrong methods have JSON errors") {
  Front front;
  for (const auto& [method, path, status] : {std::tuple{"GET", "/nowhere", 404},
                                             {"GET", "/v1/completions", 405},
                                             {"POST", "/health", 405},
                                             {"DELETE", "/v1/models/tiny", 405},
                                             {"OPTIONS", "/v1/chat/completions", 405},
                                             {"BREW", "/ping", 405},
                                             {"GET", "/", 404}}) {
    const auto response = testing::fetch(front.port(), method, path);
    INFO(method << " " << path);
    CHECK(response.status == status);
    CHECK(json_of(response)["error"]["message"].is_string());
    CHECK_FALSE(response.header("x-request-id").empty());
    CHECK(response.header("allow").empty() == (status == 404));
  }
}

TEST_CASE("tokenize and detokenize") {
  Front front;
  const Json plain = json_of(front.post("/tokenize", R"({"model":"tiny","prompt":"aé<|end|>"})"));
  CHECK(dump_json(plain) == R"({"count":4,"max_model_len":256,"tokens":[97,195,169,257],"token_strs":null})");
  const Json chat = json_of(front.post("/tokenize", chat_body(R"("return_token_strs":true)")));
  CHECK(chat["token_strs"][0] == "<|turn|>");
  CHECK(json_of(front.post("/tokenize", R"({"prompt":""})"))["count"] == 0);
  CHECK(json_of(front.post("/detokenize", R"({"tokens":[97,195,169,257]})"))["prompt"] == "aé<|end|>");
  CHECK(json_of(front.post("/detokenize", R"({"tokens":[195]})"))["prompt"] == "\xef\xbf\xbd");
  CHECK(front.post("/tokenize", "{}").status == 400);
  CHECK(front.post("/tokenize", R"({"prompt":5})").status == 400);
  CHECK(front.post("/detokenize", R"({"tokens":[258]})").status == 400);
  CHECK(front.post("/detokenize", "{}").status == 400);
  CHECK(front.post("/detokenize", R"({"model":"x","tokens":[]})").status == 404);
}

TEST_CASE("request ids are echoed where they are harmless, made where they are not, and on errors too") {
  Front front;
  CHECK(front.get("/ping", "X-Request-Id: abc-1\r\n").header("x-request-id") == "abc-1");
  CHECK(front.get("/nowhere", "X-Request-Id: abc-2\r\n").header("x-request-id") == "abc-2");
  CHECK(front.post("/v1/completions", "{", "X-Request-Id: abc-3\r\n").header("x-request-id") == "abc-3");
  CHECK(front.post("/v1/chat/completions", chat_body(R"("stream":true)"), "X-Request-Id: abc-4\r\n").header("x-request-id") ==
        "abc-4");
  CHECK(front.engine.last_request().request_id.starts_with("abc-4/"));
  CHECK(front.get("/ping", "X-Request-Id: a b\r\n").header("x-request-id").starts_with("req-"));
  CHECK(front.get("/ping", "X-Request-Id: " + std::string(200, 'a') + "\r\n").header("x-request-id").starts_with("req-"));
}

TEST_CASE("API keys guard every inference route and nothing else") {
  Front front({.api_keys = {"secret-one", "two"}});
  for (const char* path : {"/health", "/ping", "/version", "/metrics"}) CHECK(front.get(path).status == 200);
  for (const char* path : {"/v1/models", "/v1/models/tiny", "/tokenizer_info"}) CHECK(front.get(path).status == 401);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    CHECK(front.post(path, "{}").status == 401);
  }
  for (const char* bad : {"Bearer", "Bearer ", "Bearer secret-on", "Bearer secret-one1", "Basic secret-one", "secret-one"}) {
    const auto response = front.get("/v1/models", "Authorization: " + std::string(bad) + "\r\n");
    CHECK(response.status == 401);
    CHECK(json_of(response)["error"]["code"] == "invalid_api_key");
  }
  CHECK(front.get("/v1/models", "Authorization: Bearer secret-one\r\n").status == 200);
  CHECK(front.get("/v1/models", "authorization: bearer two\r\n").status == 200);
}

TEST_CASE("loading and draining are 503, and probes can tell") {
  Front front({.loaded = false});
  CHECK(front.get("/health").status == 503);
  CHECK(json_of(front.get("/health"))["status"] == "loading");
  CHECK(front.get("/ping").status == 200);
  CHECK(front.get("/metrics").status == 200);
  CHECK(front.get("/v1/models").status == 503);
  CHECK(front.post("/v1/chat/completions", chat_body()).status == 503);
  front.api->set_backend(&front.backend);
  CHECK(front.get("/health").status == 200);
  front.engine.pause(true);
  HttpClient running(front.port());
  running.send_request("POST", "/v1/chat/completions", chat_body());
  REQUIRE(testing::eventually([&] { return front.engine.live() == 1; }));
  front.api->begin_drain();
  CHECK(json_of(front.get("/health"))["status"] == "draining");
  const auto refused = front.post("/v1/chat/completions", chat_body());
  CHECK(refused.status == 503);
  CHECK_FALSE(refused.header("retry-after").empty());
  CHECK(front.get("/v1/models").status == 200);
  front.engine.pause(false);
  CHECK(running.receive()->status == 200);
}

TEST_CASE("a chat, whole") {
  Front front;
  const auto response = front.post("/v1/chat/completions", chat_body(R"("n":2,"max_tokens":12,"temperature":0)"));
  REQUIRE(response.status == 200);
  const Json body = json_of(response);
  CHECK(body["object"] == "chat.completion");
  CHECK(body["id"].get<std::string>().starts_with("chatcmpl-"));
  REQUIRE(body["choices"].size() == 2);
  CHECK(body["choices"][0]["message"]["content"] == body["choices"][1]["message"]["content"]);
  CHECK(body["choices"][0]["message"]["content"] == "?user:hi??as");
  CHECK(body["choices"][0]["finish_reason"] == "length");
  CHECK(body["usage"]["prompt_tokens"] == 20);
  CHECK(body["usage"]["completion_tokens"] == 24);
  CHECK_FALSE(body["choices"][0]["message"].contains("tool_calls"));
  // Without a maximum, all of the context is left for the answer.
  front.post("/v1/chat/completions", chat_body());
  CHECK(front.engine.last_request().max_tokens == 256 - 20);
  CHECK(front.idle());
}

TEST_CASE("a stream: roles first, text, finishes, usage only when asked for, then the end") {
  Front front;
  for (const bool usage : {false, true}) {
    const std::string options = usage ? R"(,"stream_options":{"include_usage":true})" : "";
    const auto events = events_of(front.post("/v1/chat/completions", chat_body(R"("n":3,"stream":true,"max_tokens":5)" + options)));
    const auto unary = json_of(front.post("/v1/chat/completions", chat_body(R"("n":3,"max_tokens":5)")));
    std::vector<std::string> texts(3);
    std::vector<int> finishes(3);
    for (int i = 0; i < 3; ++i) {
      CHECK(events[static_cast<std::size_t>(i)]["choices"][0]["index"] == i);
      CHECK(events[static_cast<std::size_t>(i)]["choices"][0]["delta"]["role"] == "assistant");
    }
    int usages = 0;
    for (const Json& event : events) {
      CHECK(event["object"] == "chat.completion.chunk");
      CHECK(event["id"] == events[0]["id"]);
      CHECK(event["created"] == events[0]["created"]);
      usages += event.contains("usage") ? 1 : 0;
      if (event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      const auto index = choice["index"].get<std::size_t>();
      texts[index] += choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) ++finishes[index];
    }
    CHECK(usages == (usage ? 1 : 0));
    CHECK(events.back().contains("usage") == usage);
    if (usage) CHECK(events.back()["usage"] == unary["usage"]);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(texts[i] == unary["choices"][i]["message"]["content"]);
      CHECK(finishes[i] == 1);
    }
  }
}

TEST_CASE("completions: several prompts are joined prompt by prompt") {
  Front front;
  const Json body = json_of(front.post("/v1/completions", R"({"prompt":["ab","cd"],"n":2,"max_tokens":9})"));
  REQUIRE(body["choices"].size() == 4);
  const char* expected[] = {"ab", "ab", "cd", "cd"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(body["choices"][i]["index"] == i);
    CHECK(body["choices"][i]["text"] == expected[i]);
    CHECK(body["choices"][i]["finish_reason"] == "stop");
  }
  CHECK(body["object"] == "text_completion");
  CHECK(dump_json(body["usage"]) ==
        R"({"prompt_tokens":4,"completion_tokens":8,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0}})");
  const auto events = events_of(front.post("/v1/completions", R"({"prompt":[[97,98],[99]],"max_tokens":9,"stream":true})"));
  std::vector<std::string> texts(2);
  for (const Json& event : events) {
    texts[event["choices"][0]["index"].get<std::size_t>()] += event["choices"][0]["text"].get<std::string>();
  }
  CHECK(texts == std::vector<std::string>{"ab", "c"});
}

TEST_CASE("echo with logprobs, as evaluation harnesses ask for it") {
  Front front;
  const Json body = json_of(front.post("/v1/completions", R"({"prompt":[97,195,169],"max_tokens":1,"echo":true,"logprobs":1})"));
  const Json& choice = body["choices"][0];
  CHECK(choice["text"] == "aéa");
  CHECK(dump_json(choice["logprobs"]["tokens"]) == R"(["a","bytes:\\xc3","bytes:\\xa9","a"])");
  CHECK(dump_json(choice["logprobs"]["token_logprobs"]) == "[null,-0.5,-0.5,-0.25]");
  CHECK(choice["logprobs"]["top_logprobs"][0].is_null());
  CHECK(choice["logprobs"]["top_logprobs"][1].size() == 2);
  CHECK(dump_json(choice["logprobs"]["text_offset"]) == "[0,1,2,2]");
  CHECK(front.engine.last_request().prompt_top_logprobs == 1);
  const Json scored = json_of(front.post("/v1/completions", R"({"prompt":"ab","max_tokens":0,"echo":true,"logprobs":0})"));
  CHECK(scored["choices"][0]["text"] == "ab");
  CHECK(scored["choices"][0]["logprobs"]["tokens"].size() == 2);
  CHECK(scored["choices"][0]["finish_reason"] == "length");
  CHECK(scored["usage"]["completion_tokens"] == 0);
  const auto events = events_of(front.post("/v1/completions", R"({"prompt":"ab","max_tokens":1,"echo":true,"stream":true})"));
  CHECK(events[0]["choices"][0]["text"] == "ab");
  CHECK(front.post("/v1/completions", R"({"prompt":"ab","max_tokens":0})").status == 400);
}

TEST_CASE("a prompt that is too long is refused with both numbers before any stream begins") {
  Front front({.max_model_len = 32});
  const auto response = front.post("/v1/completions", R"({"prompt":")" + std::string(40, 'x') + R"(","stream":true})");
  CHECK(response.status == 400);
  const Json error = json_of(response)["error"];
  CHECK(error["code"] == "context_length_exceeded");
  CHECK(error["message"].get<std::string>().find("32") != std::string::npos);
  CHECK(error["message"].get<std::string>().find("40") != std::string::npos);
  CHECK(error["param"] == "prompt");
  const std::string many = R"({"prompt":["a",")" + std::string(40, 'x') + R"("]})";
  CHECK(json_of(front.post("/v1/completions", many))["error"]["param"] == "prompt[1]");
  CHECK(front.engine.submitted_total() == 0);
}

TEST_CASE("failures before the first token have their HTTP status, later ones an error event") {
  Front front;
  const std::string body = chat_body(R"("stream":true)");
  front.engine.fail_next_submit(resource_exhausted("needs 9 blocks; there are 5"));
  const auto never = front.post("/v1/chat/completions", body);
  CHECK(never.status == 400);
  CHECK(json_of(never)["error"]["message"] == "needs 9 blocks; there are 5");
  front.engine.fail_next_submit({Code::kUnavailable, "the queue is full"});
  const auto busy = front.post("/v1/chat/completions", body);
  CHECK(busy.status == 429);
  CHECK_FALSE(busy.header("retry-after").empty());
  const auto failing = [](int good) {
    return [good](const GenerateRequest& request) {
      auto updates = testing::FakeEngine::repeat_prompt(request);
      updates.resize(static_cast<std::size_t>(good));
      GenerationUpdate& last = updates.emplace_back();
      last.finished = true;
      last.error = internal_error("a kernel failed");
      return updates;
    };
  };
  front.engine.set_script(failing(0));
  CHECK(front.post("/v1/chat/completions", body).status == 500);
  CHECK(front.post("/v1/chat/completions", chat_body()).status == 500);
  front.engine.set_script(failing(2));
  const auto events = events_of(front.post("/v1/chat/completions", body));
  CHECK(events.back()["error"]["message"] == "a kernel failed");
  CHECK(front.idle());
}

TEST_CASE("generations that are still running at the end are told so") {
  Front front;
  front.engine.pause(true);
  HttpClient unary(front.port());
  unary.send_request("POST", "/v1/chat/completions", chat_body());
  HttpClient streaming(front.port());
  streaming.send_request("POST", "/v1/chat/completions", chat_body(R"("stream":true)"));
  REQUIRE(testing::eventually([&] { return front.engine.live() == 2; }));
  front.engine.step(2);
  streaming.receive_until("\"content\":\"?\"");
  front.api->abort_generations();
  CHECK(unary.receive()->status == 503);
  const auto response = streaming.receive();
  REQUIRE(response);
  CHECK(events_of(*response).back()["error"]["code"] == "draining");
  CHECK(front.idle());
  CHECK(front.engine.cancelled_total() == 2);
}

TEST_CASE("one prompt that cannot be queued takes its siblings with it") {
  Front front;
  front.engine.pause(true);
  int submitted = 0;
  front.engine.set_script([&](const GenerateRequest& request) {
    if (++submitted == 2) front.api->begin_drain();
    return testing::FakeEngine::repeat_prompt(request);
  });
  front.engine.fail_next_submit({Code::kUnavailable, "full"});
  CHECK(front.post("/v1/completions", R"({"prompt":["a","b","c"]})").status == 429);
  CHECK(front.idle());
}

TEST_CASE("a client that leaves while queued or streaming frees its request") {
  Front front;
  for (const bool stream : {false, true}) {
    for (const int how : {0, 1, 2}) {
      for (const int steps : {0, 3}) {
        front.engine.pause(true);
        const int before = front.engine.cancelled_total();
        HttpClient client(front.port());
        client.send_request("POST", "/v1/chat/completions", chat_body(stream ? R"("stream":true)" : ""));
        REQUIRE(testing::eventually([&] { return front.engine.live() == 1; }));
        front.engine.step(steps);
        if (stream && steps > 0) client.receive_until("data: ");
        if (how == 0) client.close();
        if (how == 1) client.reset();
        if (how == 2) client.half_close();
        INFO("stream " << stream << " how " << how << " steps " << steps);
        REQUIRE(testing::eventually([&] { return front.engine.cancelled_total() == before + 1; }));
        front.engine.pause(false);
        REQUIRE(front.idle());
      }
    }
  }
}

TEST_CASE("a stream nobody reads is aborted and its engine request cancelled; others go on") {
  Front front({.limits = {.stream_buffer_bytes = 20'000}});
  front.engine.set_script([](const GenerateRequest& request) {
    std::vector<GenerationUpdate> updates(static_cast<std::size_t>(request.max_tokens));
    for (auto& update : updates) update.choices.emplace_back().text = std::string(10'000, 'x');
    updates.back().choices[0].finish = FinishReason::kLength;
    updates.back().finished = true;
    return updates;
  });
  HttpClient slow(front.port());
  slow.shrink_receive_buffer();
  front.engine.pause(true);
  slow.send_request("POST", "/v1/completions", R"({"prompt":"x","stream":true,"max_tokens":250})");
  REQUIRE(testing::eventually([&] { return front.engine.live() == 1; }));
  // More than the sockets can hold, in steps, so that the server has time to notice.
  for (int i = 0; i < 250 && front.engine.live() == 1; ++i) {
    front.engine.step(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  front.engine.pause(false);
  CHECK(front.idle());
  CHECK(front.get("/health").status == 200);
}

TEST_CASE("long silences before the first token are bridged with comments") {
  Front front({.limits = {.heartbeat = std::chrono::milliseconds(20)}});
  front.engine.pause(true);
  HttpClient client(front.port());
  client.send_request("POST", "/v1/chat/completions", chat_body(R"("stream":true)"));
  client.receive_until(": ping\n\n");
  front.engine.pause(false);
  const auto response = client.receive();
  REQUIRE(response);
  const auto events = events_of(*response);
  CHECK(events[0]["choices"][0]["delta"]["role"] == "assistant");
}

TEST_CASE("metrics: native names and vLLM's, with the values of the engine") {
  Front front;
  front.engine.pause(true);
  HttpClient waiting(front.port());
  waiting.send_request("POST", "/v1/chat/completions", chat_body());
  REQUIRE(testing::eventually([&] { return front.engine.live() == 1; }));
  const auto response = front.get("/metrics");
  CHECK(response.header("content-type").starts_with("text/plain; version=0.0.4"));
  for (const char* line : {"vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 1", "lynx_scheduler_waiting_requests 1",
                           "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"tiny\"} 0.01", "lynx_kv_free_blocks 99",
                           "vllm:cache_config_info{block_size=\"64\",engine=\"0\",model_name=\"tiny\",num_gpu_blocks=\"100\"} 1",
                           "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count",
                           "vllm:e2e_request_latency_seconds_count", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
                           "vllm:request_success_total{", "lynx_build_info{"}) {
    INFO(line);
    CHECK(response.body.find(line) != std::string::npos);
  }
  front.engine.pause(false);
  CHECK(waiting.receive()->status == 200);
}

}  // namespace lynx::server
