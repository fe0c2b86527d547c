#include "server/openai_request.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace lynx::server {
namespace {

const RequestLimits kLimits{.model_names = {"tiny", "org/tiny"}, .vocabulary = 258, .max_model_len = 256};

std::string fields(const std::string& extra) {
  return extra.empty() ? "" : "," + extra;
}

ApiResult<ChatRequest> chat(const std::string& extra) {
  auto json = parse_json_object(R"({"messages":[{"role":"user","content":"hi"}])" + fields(extra) + "}");
  REQUIRE(json.ok());
  return parse_chat_request(json.value(), kLimits);
}

ApiResult<CompletionRequest> completion(const std::string& extra, const std::string& prompt = R"("hi")") {
  auto json = parse_json_object(R"({"prompt":)" + prompt + fields(extra) + "}");
  REQUIRE(json.ok());
  return parse_completion_request(json.value(), kLimits);
}

ApiResult<ChatRequest> chat_messages(const std::string& messages) {
  auto json = parse_json_object(R"({"messages":)" + messages + "}");
  REQUIRE(json.ok());
  return parse_chat_request(json.value(), kLimits);
}

template <class T>
void check_param(const ApiResult<T>& result, const std::string& param) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().status == 400);
  CHECK(result.error().type == "invalid_request_error");
  REQUIRE(result.error().param);
  CHECK(*result.error().param == param);
}

}  // namespace

TEST_CASE("defaults are OpenAI's") {
  const auto request = chat("");
  REQUIRE(request.ok());
  const GenerationOptions& options = request.value().options;
  CHECK(options.model == "tiny");
  CHECK(options.sampling.temperature == 1.0F);
  CHECK(options.sampling.top_p == 1.0F);
  CHECK_FALSE(options.sampling.seed);
  CHECK_FALSE(options.max_tokens);
  CHECK(options.choices == 1);
  CHECK(options.top_logprobs == -1);
  CHECK_FALSE(options.stream);
  CHECK(completion("").value().options.max_tokens == 16);
}

TEST_CASE("every sampling field arrives") {
  const auto request = completion(R"("model":"org/tiny","temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"seed":-3,"n":4,
    "presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.5,"min_tokens":3,"max_tokens":9.0,"ignore_eos":true,
    "stop":["a","b"],"stop_token_ids":[0,257],"include_stop_str_in_output":true,"logit_bias":{"0":-100,"257":100},"logprobs":5,
    "stream":true,"stream_options":{"include_usage":true},"best_of":4,"echo":true,"add_special_tokens":false)");
  REQUIRE(request.ok());
  const GenerationOptions& options = request.value().options;
  CHECK(options.model == "org/tiny");
  CHECK(options.sampling.temperature == 0.0F);
  CHECK(options.sampling.top_p == 0.5F);
  CHECK(options.sampling.top_k == 7);
  CHECK(options.sampling.min_p == 0.25F);
  CHECK(options.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(options.sampling.presence_penalty == -2.0F);
  CHECK(options.sampling.frequency_penalty == 2.0F);
  CHECK(options.sampling.repetition_penalty == 1.5F);
  CHECK(options.sampling.min_tokens == 3);
  CHECK(options.sampling.logit_bias == std::vector<std::pair<std::int32_t, float>>{{0, -100.0F}, {257, 100.0F}});
  CHECK(options.choices == 4);
  CHECK(options.max_tokens == 9);
  CHECK(options.ignore_eos);
  CHECK(options.stop == std::vector<std::string>{"a", "b"});
  CHECK(options.stop_token_ids == std::vector<std::int32_t>{0, 257});
  CHECK(options.include_stop_text);
  CHECK(options.top_logprobs == 5);
  CHECK(options.stream);
  CHECK(options.include_usage);
  CHECK(request.value().echo);
  CHECK_FALSE(request.value().add_special_tokens);
}

TEST_CASE("a wrong type or range is a 400 that names the field") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"temperature", {"-0.1", "2.1", R"("1")", "true"}},
      {"top_p", {"0", "1.01"}},
      {"top_k", {"-2", "1.5"}},
      {"min_p", {"-1", "2"}},
      {"presence_penalty", {"2.5"}},
      {"frequency_penalty", {"-2.5"}},
      {"repetition_penalty", {"0"}},
      {"n", {"0", "129", R"("1")"}},
      {"seed", {"1e30", "1.5", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "9007199254740992.0"}},
      {"min_tokens", {"-1"}},
      {"max_tokens", {"0", "-5", "[]"}},
      {"ignore_eos", {"1"}},
      {"stop", {R"("")", R"([""])", "[1]", "{}"}},
      {"stop_token_ids", {"5"}},
      {"include_stop_str_in_output", {"0"}},
      {"stream", {R"("yes")"}},
      {"logit_bias",
       {R"({"AI":1})", R"({"258":1})", R"({"-1":1})", R"({"1":101})", R"({"1":"x"})", "[]", R"({"1.0":1})", R"({"01":1})",
        R"({"1":1,"01":1})", R"({"-0":1})"}},
      {"model", {"5"}},
      {"tools", {"[]", "[{}]"}},
      {"tool_choice", {R"("auto")"}},
      {"response_format", {R"("json")", R"({"type":"json_object"})", R"({"type":"json_schema"})"}},
      {"lynx", {"5"}},
      {"modalities", {R"(["audio"])"}},
      {"audio", {R"({"voice":"x"})"}},
      {"guided_json", {R"({"a":1})"}},
      {"suffix", {R"("x")"}},
      {"best_of", {"2"}},
      {"logprobs", {R"("yes")"}},
      {"top_logprobs", {"21"}},
      {"stream_options", {R"({"include_usage":true})"}},
      {"max_completion_tokens", {"0"}},
      {"chat_template_kwargs", {"[]"}},
      {"add_generation_prompt", {"1"}},
      {"skip_special_tokens", {"false"}},
  };
  for (const auto& [name, values] : cases) {
    for (const std::string& value : values) {
      INFO(name << " = " << value);
      check_param(chat("\"" + name + "\":" + value), name);
    }
  }
}

TEST_CASE("errors inside arrays and objects, and between fields, name the place") {
  check_param(chat(R"("stop_token_ids":[1,258])"), "stop_token_ids[1]");
  check_param(chat(R"("lynx":{"warp":9})"), "lynx.warp");
  check_param(chat(R"("stream":true,"stream_options":{"include_usage":3})"), "stream_options.include_usage");
  check_param(chat(R"("top_logprobs":2)"), "top_logprobs");
  check_param(chat(R"("top_logprobs":2,"logprobs":false)"), "top_logprobs");
  check_param(chat(R"("min_tokens":5,"max_tokens":4)"), "min_tokens");
  check_param(chat(R"("chat_template_kwargs":{"messages":[]})"), "chat_template_kwargs.messages");
  check_param(chat(R"("continue_final_message":true,"add_generation_prompt":true)"), "add_generation_prompt");
  check_param(completion(R"("logprobs":21)"), "logprobs");
  check_param(completion(R"("logprobs":true)"), "logprobs");
  check_param(completion(R"("echo":true,"max_tokens":-1)"), "max_tokens");
}

TEST_CASE("what every prompt keeps a copy of is bounded") {
  const auto list = [](int count, const auto& item) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + item(i);
    return text;
  };
  const auto number = [](int i) { return std::to_string(i); };
  const auto bias = [](int i) { return "\"" + std::to_string(i) + "\":1"; };
  const auto stop = [](int i) { return "\"" + std::string(1023, 'x') + static_cast<char>('a' + i) + "\""; };
  const RequestLimits large{.model_names = {"tiny"}, .vocabulary = 10'000, .max_model_len = 256};
  const auto parse = [&](const std::string& extra, int prompts = 1) {
    const auto prompt = [](int) { return std::string("\"a\""); };
    auto json = parse_json_object(R"({"prompt":[)" + list(prompts, prompt) + "]," + extra + "}");
    REQUIRE(json.ok());
    return parse_completion_request(json.value(), large);
  };
  CHECK(parse(R"("stop_token_ids":[)" + list(1024, number) + "]").ok());
  check_param(parse(R"("stop_token_ids":[)" + list(1025, number) + "]"), "stop_token_ids");
  const auto repeated = parse(R"("stop_token_ids":[)" + list(5000, [](int i) { return std::to_string(7 - i % 2); }) + "]");
  REQUIRE(repeated.ok());
  CHECK(repeated.value().options.stop_token_ids == std::vector<std::int32_t>{6, 7});
  CHECK(parse(R"("logit_bias":{)" + list(4096, bias) + "}").ok());
  check_param(parse(R"("logit_bias":{)" + list(4097, bias) + "}"), "logit_bias");
  CHECK(parse(R"("stop":[)" + list(4, stop) + "]").ok());
  check_param(parse(R"("stop":[)" + list(5, stop) + "]"), "stop");
  const std::string most = R"("logit_bias":{)" + list(4096, bias) + "}";
  CHECK(parse(most, 128).ok());
  check_param(parse(most, 129), "prompt");
  check_param(parse(R"("stop":[)" + list(4, stop) + "]", 129), "prompt");
}

TEST_CASE("template options are bounded in number") {
  const auto kwargs = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
    return R"("chat_template_kwargs":{)" + text + "}";
  };
  CHECK(chat(kwargs(256)).ok());
  check_param(chat(kwargs(257)), "chat_template_kwargs");
}

TEST_CASE("null is absent, unknown fields are ignored, harmless values of unsupported ones pass") {
  CHECK(chat(R"("temperature":null,"stop":null,"tools":null,"n":null,"seed":null,"stream_options":null,"lynx":null)").ok());
  CHECK(chat(R"("user":"u","metadata":{"a":"b"},"store":true,"no_such_field":[1],"service_tier":"auto")").ok());
  CHECK(chat(R"("suffix":"","tool_choice":"none","response_format":{"type":"text"},"modalities":["text"],"lynx":{})").ok());
  CHECK(chat(R"("skip_special_tokens":true,"use_beam_search":false,"echo":false,"top_k":-1)").ok());
}

TEST_CASE("max_completion_tokens beats max_tokens; beyond 32 bits is clamped, not wrapped") {
  CHECK(chat(R"("max_tokens":3,"max_completion_tokens":5)").value().options.max_tokens == 5);
  CHECK(chat(R"("max_tokens":3)").value().options.max_tokens == 3);
  CHECK(chat(R"("max_tokens":9000000000)").value().options.max_tokens == INT32_MAX);
  CHECK(completion(R"("echo":true,"max_tokens":0)").value().options.max_tokens == 0);
}

TEST_CASE("whole numbers are exact up to their ends") {
  const auto seed = [](const std::string& text) { return chat("\"seed\":" + text).value().options.sampling.seed; };
  CHECK(seed("-9223372036854775808") == std::uint64_t{1} << 63);
  CHECK(seed("9223372036854775807") == (std::uint64_t{1} << 63) - 1);
  CHECK(seed("9007199254740991.0") == (std::uint64_t{1} << 53) - 1);
  CHECK(seed("1e3") == 1000U);
}

TEST_CASE("an unknown model is a 404, an absent one is the served one") {
  const auto request = chat(R"("model":"gpt-9")");
  REQUIRE_FALSE(request.ok());
  CHECK(request.error().status == 404);
  CHECK(request.error().code == "model_not_found");
  CHECK(chat(R"("model":"org/tiny")").value().options.model == "org/tiny");
}

TEST_CASE("prompts: a string, strings, tokens, lists of tokens") {
  CHECK(std::get<std::string>(completion("", R"("a")").value().prompts.at(0)) == "a");
  CHECK(completion("", R"(["a","b"])").value().prompts.size() == 2);
  CHECK(std::get<std::vector<std::int32_t>>(completion("", "[1,2]").value().prompts.at(0)) == std::vector<std::int32_t>{1, 2});
  CHECK(completion("", "[[1],[2,3]]").value().prompts.size() == 2);
  check_param(completion("", "null"), "prompt");
  check_param(completion("", "5"), "prompt");
  check_param(completion("", "{}"), "prompt");
  check_param(completion("", "[]"), "prompt");
  check_param(completion("", "[[]]"), "prompt[0]");
  check_param(completion("", "[1,258]"), "prompt[1]");
  check_param(completion("", "[1,\"a\"]"), "prompt[1]");
  check_param(completion("", "[\"a\",1]"), "prompt[1]");
  check_param(completion("", "[[1],[-1]]"), "prompt[1][0]");
  check_param(completion("", "[[1],\"a\"]"), "prompt[1]");
  check_param(completion("", "[true]"), "prompt[0]");
  std::string many = "[\"a\"";
  for (int i = 1; i < 100; ++i) many += ",\"a\"";
  CHECK(completion(R"("n":20)", many + "]").ok());
  check_param(completion(R"("n":21)", many + "]"), "n");
}

TEST_CASE("message content: string, null, nothing, parts") {
  const auto content = [](const std::string& message) {
    const auto request = chat_messages("[" + message + "]");
    REQUIRE(request.ok());
    return request.value().prompt.messages.at(0).at("content").get<std::string>();
  };
  CHECK(content(R"({"role":"user","content":"x"})") == "x");
  CHECK(content(R"({"role":"assistant","content":""})").empty());
  CHECK(content(R"({"role":"assistant","content":null})").empty());
  CHECK(content(R"({"role":"assistant"})").empty());
  CHECK(content(R"({"role":"user","content":[]})").empty());
  CHECK(content(R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})") == "a\nb");
}

TEST_CASE("roles: the five that exist, developer as system; else a 400 with the path") {
  for (const char* role : {"system", "user", "assistant", "tool"}) {
    const auto request = chat_messages(std::string(R"([{"content":"x","role":")") + role + "\"}]");
    REQUIRE(request.ok());
    CHECK(request.value().prompt.messages[0]["role"] == role);
  }
  CHECK(chat_messages(R"([{"role":"developer","content":"x"}])").value().prompt.messages[0]["role"] == "system");
  check_param(chat_messages("[]"), "messages");
  check_param(chat_messages("null"), "messages");
  check_param(chat_messages("{}"), "messages");
  check_param(chat_messages("[5]"), "messages[0]");
  check_param(chat_messages(R"([{"role":"user","content":"a"},{"content":"x"}])"), "messages[1].role");
  check_param(chat_messages(R"([{"role":"robot","content":"x"}])"), "messages[0].role");
  check_param(chat_messages(R"([{"role":5,"content":"x"}])"), "messages[0].role");
  check_param(chat_messages(R"([{"role":"user","content":5}])"), "messages[0].content");
  check_param(chat_messages(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])"),
              "messages[0].content[1].type");
  check_param(chat_messages(R"([{"role":"user","content":["a"]}])"), "messages[0].content[0]");
  check_param(chat_messages(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0].content[0].text");
  check_param(chat_messages(R"([{"role":"assistant","tool_calls":[{"id":"1"}]}])"), "messages[0].tool_calls");
  check_param(chat_messages(R"([{"role":"user","content":"x","name":5}])"), "messages[0].name");
}

TEST_CASE("template options") {
  CHECK(chat("").value().prompt.add_generation_prompt);
  CHECK_FALSE(chat(R"("add_generation_prompt":false)").value().prompt.add_generation_prompt);
  const auto request = chat(R"("continue_final_message":true,"chat_template_kwargs":{"enable_thinking":false})");
  REQUIRE(request.ok());
  CHECK_FALSE(request.value().prompt.add_generation_prompt);
  CHECK(request.value().prompt.continue_final_message);
  CHECK(request.value().prompt.template_kwargs["enable_thinking"] == false);
}

}  // namespace lynx::server
