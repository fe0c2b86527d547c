#include "server/openai_response.h"

#include <limits>
#include <string>

#include "server/openai_prompt.h"
#include "tests/catch.h"
#include "tests/server/http_byte_tokenizer.h"

namespace lynx::server {
namespace {

using testing::byte_tokenizer;
using testing::kEndToken;
using testing::kTurnToken;

const ResponseHead kChat{.id = "chatcmpl-1", .created = 7, .model = "tiny", .chat = true};
const ResponseHead kText{.id = "cmpl-1", .created = 7, .model = "tiny", .chat = false};

ChatPrompt prompt_of(const std::string& content) {
  ChatPrompt prompt;
  prompt.messages.push_back({{"role", "user"}, {"content", content}});
  return prompt;
}

}  // namespace

TEST_CASE("the whole answer of a chat") {
  const auto tokenizer = byte_tokenizer();
  const std::vector<ChoicePart> choices = {{.index = 0, .text = "a", .finish = FinishReason::kStop},
                                           {.index = 1, .text = "b", .finish = FinishReason::kLength}};
  const Json body = unary_body(kChat, choices, {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1}, false, tokenizer);
  CHECK(dump_json(body) ==
        R"({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"tiny","choices":[)"
        R"({"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"},)"
        R"({"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":null,"finish_reason":"length"}],)"
        R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST_CASE("chunks: role, delta, finish, usage") {
  const auto tokenizer = byte_tokenizer();
  CHECK(dump_json(role_chunk(kChat, 2)["choices"]) ==
        R"([{"index":2,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])");
  CHECK(dump_json(delta_chunk(kChat, {.index = 1, .text = "x"}, false, tokenizer)["choices"]) ==
        R"([{"index":1,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}])");
  CHECK(dump_json(delta_chunk(kChat, {.index = 1, .finish = FinishReason::kStop}, false, tokenizer)["choices"]) ==
        R"([{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}])");
  CHECK(dump_json(delta_chunk(kText, {.text = "x"}, false, tokenizer)["choices"]) ==
        R"([{"index":0,"text":"x","logprobs":null,"finish_reason":null}])");
  const Json usage = usage_chunk(kChat, {.prompt_tokens = 1});
  CHECK(usage["choices"].empty());
  CHECK(usage["object"] == "chat.completion.chunk");
  CHECK(usage["usage"]["total_tokens"] == 1);
  CHECK(sse_event(Json{{"a", "b\nc"}}) == "data: {\"a\":\"b\\nc\"}\n\n");
}

TEST_CASE("chat logprobs carry bytes; a piece of a character is spelled out; nothing is infinite") {
  const auto tokenizer = byte_tokenizer();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<TokenOutput> tokens = {
      {.id = 'A', .logprob = -0.5F, .top = {{'A', -0.5F}, {0xC3, -infinity}}},
      {.id = 0xE2, .logprob = std::numeric_limits<float>::quiet_NaN(), .top = {}},
  };
  CHECK(dump_json(chat_logprobs(tokens, tokenizer)) ==
        R"({"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[{"token":"A","logprob":-0.5,"bytes":[65]},)"
        R"({"token":"\\xc3","logprob":-9999.0,"bytes":[195]}]},)"
        R"({"token":"\\xe2","logprob":-9999.0,"bytes":[226],"top_logprobs":[]}],"refusal":null})");
}

TEST_CASE("completion logprobs: names, scores, the likeliest of tokens that print alike, offsets") {
  const auto tokenizer = byte_tokenizer();
  ChoicePart part{
      .text = "AB",
      .tokens = {{.id = 'A', .logprob = -1, .top = {{'B', -0.5F}, {'A', -1}}}, {.id = 0x80, .logprob = -2, .top = {{'A', -0.25F}}}},
      .text_offsets = {0, 1},
      .unscored_tokens = 0};
  CHECK(dump_json(completion_logprobs(part, tokenizer)) ==
        R"({"tokens":["A","bytes:\\x80"],"token_logprobs":[-1.0,-2.0],"top_logprobs":[{"B":-0.5,"A":-1.0},)"
        R"({"A":-0.25,"bytes:\\x80":-2.0}],"text_offset":[0,1]})");
  part.unscored_tokens = 1;
  const Json unscored = completion_logprobs(part, tokenizer);
  CHECK(unscored["token_logprobs"][0].is_null());
  CHECK(unscored["top_logprobs"][0].is_null());
  CHECK(unscored["token_logprobs"][1] == -2.0);
}

TEST_CASE("an echoed prompt counts offsets in code points and hides an added bos") {
  const auto tokenizer = byte_tokenizer();
  const std::vector<TokenOutput> tokens = {{kTurnToken, 0, {}}, {'a', 0, {}}, {0xC3, 0, {}}, {0xA9, 0, {}}, {'b', 0, {}}};
  const ChoicePart part = echo_part(
      "a\xC3\xA9"
      "b",
      tokens, 1, tokenizer);
  CHECK(part.text_offsets == std::vector<std::int32_t>{0, 0, 1, 2, 2});
  CHECK(part.unscored_tokens == 1);
  CHECK(count_code_points(part.text) == 3);
}

TEST_CASE("prompts are encoded with bos only where the model wants one and text was given") {
  const auto plain = byte_tokenizer();
  const auto with_bos = byte_tokenizer(true);
  CHECK(encode_prompt(std::string("hi"), true, {&plain, nullptr}, "prompt").value().tokens == std::vector<std::int32_t>{'h', 'i'});
  CHECK(encode_prompt(std::string("h"), true, {&with_bos, nullptr}, "prompt").value().tokens ==
        std::vector<std::int32_t>{kTurnToken, 'h'});
  CHECK(encode_prompt(std::string("h"), false, {&with_bos, nullptr}, "prompt").value().tokens == std::vector<std::int32_t>{'h'});
  CHECK(encode_prompt(std::vector<std::int32_t>{'h'}, true, {&with_bos, nullptr}, "prompt").value().text == "h");
  CHECK(encode_prompt(std::string("<|end|>"), true, {&plain, nullptr}, "prompt").value().tokens ==
        std::vector<std::int32_t>{kEndToken});
  const auto empty = encode_prompt(std::string(), true, {&plain, nullptr}, "prompt[3]");
  REQUIRE_FALSE(empty.ok());
  CHECK(empty.error().param == "prompt[3]");
}

TEST_CASE("chat prompts are rendered; what the template refuses is a 400") {
  const auto tokenizer = byte_tokenizer();
  const auto chat_template = testing::simple_chat_template();
  const TextTools tools{&tokenizer, &chat_template};
  ChatPrompt prompt = prompt_of("hi");
  const auto encoded = encode_chat(prompt, tools);
  REQUIRE(encoded.ok());
  CHECK(encoded.value().text == "<|turn|>user:hi<|end|><|turn|>assistant:");
  CHECK(encoded.value().tokens.front() == kTurnToken);
  CHECK(encoded.value().tokens.size() == 7 + 3 + 10);
  prompt.add_generation_prompt = false;
  prompt.template_kwargs = {{"shout", true}};
  CHECK(encode_chat(prompt, tools).value().text == "<|turn|>user:hi<|end|>!");
  const auto refused = encode_chat(prompt_of("raise"), tools);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == 400);
  CHECK(refused.error().message.find("no such content") != std::string::npos);
  CHECK(encode_chat(prompt, {&tokenizer, nullptr}).error().code == "no_chat_template");
}

TEST_CASE("continue_final_message cuts behind the last message") {
  const auto tokenizer = byte_tokenizer();
  const auto chat_template = testing::simple_chat_template();
  const TextTools tools{&tokenizer, &chat_template};
  ChatPrompt prompt = prompt_of("hi ho");
  prompt.messages.push_back({{"role", "assistant"}, {"content", "hi "}});
  prompt.add_generation_prompt = false;
  prompt.continue_final_message = true;
  CHECK(encode_chat(prompt, tools).value().text == "<|turn|>user:hi ho<|end|><|turn|>assistant:hi ");
  prompt.messages.back()["content"] = " ";
  CHECK_FALSE(encode_chat(prompt, tools).ok());
}

TEST_CASE("the engine's request: clamped, with a seed, and refused with both numbers when there is no room") {
  GenerationOptions options;
  options.max_tokens = 1000;
  auto request = make_generate_request(options, std::vector<std::int32_t>(10, 'a'), "id", 16, "prompt[3]");
  REQUIRE(request.ok());
  CHECK(request.value().max_tokens == 6);
  CHECK(request.value().sampling.seed.has_value());
  options.max_tokens.reset();
  options.sampling.seed = 5;
  request = make_generate_request(options, std::vector<std::int32_t>(15, 'a'), "id", 16, "prompt[3]");
  CHECK(request.value().max_tokens == 1);
  CHECK(request.value().sampling.seed == 5U);
  const auto refused = make_generate_request(options, std::vector<std::int32_t>(16, 'a'), "id", 16, "prompt[3]");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == "context_length_exceeded");
  CHECK(refused.error().message.find("16 tokens, but the prompt has 16 tokens") != std::string::npos);
  CHECK(refused.error().param == "prompt[3]");
}

TEST_CASE("a maximum that the client chose stays its own; one that is the rest of the context may be lowered further") {
  GenerationOptions options;
  const auto fit = [&] { return make_generate_request(options, {1, 2}, "id", 16, "prompt").value().fit_max_tokens; };
  CHECK(fit());
  options.max_tokens = 15;
  CHECK(fit());
  options.max_tokens = 14;
  CHECK_FALSE(fit());
}

TEST_CASE("when nothing is to be generated the prompt may be as long as the context") {
  GenerationOptions options;
  options.max_tokens = 0;
  const auto all = make_generate_request(options, std::vector<std::int32_t>(16, 'a'), "id", 16, "prompt");
  REQUIRE(all.ok());
  CHECK(all.value().max_tokens == 0);
  const auto beyond = make_generate_request(options, std::vector<std::int32_t>(17, 'a'), "id", 16, "prompt");
  REQUIRE_FALSE(beyond.ok());
  CHECK(beyond.error().code == "context_length_exceeded");
  CHECK(beyond.error().message.find("one more") == std::string::npos);
}

}  // namespace lynx::server
