#include "server/inference_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/openai_request.h"
#include "tests/catch.h"
#include "tests/server/http_byte_tokenizer.h"

namespace lynx::server {
namespace {

using testing::byte_tokenizer;
using testing::simple_chat_template;

constexpr int kWorlds = 4000;

struct Model {
  text::Tokenizer tokenizer = byte_tokenizer(true);
  text::ChatTemplate chat_template = simple_chat_template();
  ServingBackend backend;

  Model() {
    backend.text = {&tokenizer, &chat_template};
    backend.limits = {.model_names = {"tiny", "org/tiny"}, .vocabulary = tokenizer.vocabulary(), .max_model_len = 256};
  }
};

std::vector<std::pair<std::int32_t, float>> sorted(std::vector<std::pair<std::int32_t, float>> biases) {
  std::sort(biases.begin(), biases.end());
  return biases;
}

void check_same(const GenerateRequest& a, const GenerateRequest& b, bool seeded) {
  CHECK(a.prompt == b.prompt);
  CHECK(a.max_tokens == b.max_tokens);
  CHECK(a.fit_max_tokens == b.fit_max_tokens);
  CHECK(a.choices == b.choices);
  CHECK(a.stop == b.stop);
  CHECK(a.stop_token_ids == b.stop_token_ids);
  CHECK(a.include_stop_text == b.include_stop_text);
  CHECK(a.ignore_eos == b.ignore_eos);
  CHECK(a.top_logprobs == b.top_logprobs);
  CHECK(a.prompt_top_logprobs == b.prompt_top_logprobs);
  CHECK(a.transfer == b.transfer);
  CHECK(a.gap == b.gap);
  CHECK(a.provisional == b.provisional);
  CHECK(a.receipt == b.receipt);
  const model::SamplingParams& x = a.sampling;
  const model::SamplingParams& y = b.sampling;
  CHECK(x.temperature == y.temperature);
  CHECK(x.top_p == y.top_p);
  CHECK(x.top_k == y.top_k);
  CHECK(x.min_p == y.min_p);
  CHECK(x.repetition_penalty == y.repetition_penalty);
  CHECK(x.frequency_penalty == y.frequency_penalty);
  CHECK(x.presence_penalty == y.presence_penalty);
  CHECK(x.min_tokens == y.min_tokens);
  CHECK(sorted(x.logit_bias) == sorted(y.logit_bias));
  if (seeded) CHECK(x.seed == y.seed);
}

/// One random request, written as a message and, independently, as an HTTP body. Fields are absent, usual, or out of range.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    write_prompt();
    write_numbers();
    write_ends();
  }

  v1::GenerateRequest message;
  Json body = Json::object();
  bool chat = false;

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  bool maybe() { return below(4) == 0; }

  void write_prompt() {
    switch (below(3)) {
      case 0: {
        const auto text = one_of<std::string>({"hi", "", "grüße 🦊", std::string(300, 'x')});
        message.set_text(text);
        body["prompt"] = text;
        if (maybe()) {
          message.set_add_special_tokens(false);
          body["add_special_tokens"] = false;
        }
        break;
      }
      case 1: {
        const auto ids = one_of<std::vector<std::int32_t>>({{104, 105}, {}, {0, 257}, {1, 258}, {-1}});
        message.mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
        body["prompt"] = ids;
        break;
      }
      default: {
        chat = true;
        body["messages"] = Json::array();
        message.mutable_chat();
        for (std::size_t i = below(4); i > 0; --i) {
          const auto role = one_of<std::string>({"user", "system", "assistant", "nobody"});
          const auto content = one_of<std::string>({"hello", "", "raise"});
          auto* added = message.mutable_chat()->add_messages();
          added->set_role(role);
          added->set_content(content);
          body["messages"].push_back({{"role", role}, {"content", content}});
        }
        if (maybe()) {
          const bool last = below(2) == 0;
          message.mutable_chat()->set_continue_final_message(last);
          body["continue_final_message"] = last;
        }
        if (maybe()) {
          message.mutable_chat()->set_add_generation_prompt(true);
          body["add_generation_prompt"] = true;
        }
        if (maybe()) {
          message.mutable_chat()->set_chat_template_kwargs(R"({"shout":true})");
          body["chat_template_kwargs"] = {{"shout", true}};
        }
      }
    }
  }

  void write_numbers() {
    const auto number = [&](const char* name, void (v1::GenerateRequest::*set)(double), const std::vector<double>& values) {
      if (!maybe()) return;
      const double value = one_of(values);
      (message.*set)(value);
      body[name] = value;
    };
    const auto whole = [&](const char* name, void (v1::GenerateRequest::*set)(std::int64_t),
                           const std::vector<std::int64_t>& values) {
      if (!maybe()) return;
      const std::int64_t value = one_of(values);
      (message.*set)(value);
      body[name] = value;
    };
    using Request = v1::GenerateRequest;
    number("temperature", &Request::set_temperature, {0, 0.7, 2, 0.1, 2.5});
    number("top_p", &Request::set_top_p, {1, 0.9, 1e-3, 0.5, 0});
    number("min_p", &Request::set_min_p, {0, 0.05, 1, -0.1});
    number("repetition_penalty", &Request::set_repetition_penalty, {1, 1.1, 0.5, 0});
    number("frequency_penalty", &Request::set_frequency_penalty, {0, -2, 2, 0.25, 3});
    number("presence_penalty", &Request::set_presence_penalty, {0, -2, 2, 0.25, -3});
    whole("top_k", &Request::set_top_k, {0, -1, 40, std::int64_t{1} << 40, -2});
    whole("seed", &Request::set_seed,
          {0, 7, -1, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()});
    whole("max_tokens", &Request::set_max_tokens, {1, 5, 400, std::int64_t{1} << 40, 0});
    whole("min_tokens", &Request::set_min_tokens, {0, 1, 6, -1});
    whole("n", &Request::set_n, {1, 2, 128, 129, 0});
    if (maybe()) {
      const auto id = static_cast<std::int32_t>(one_of<int>({0, 257, 65, 258, -1}));
      const double bias = one_of<double>({100, -100, 0.5, 101});
      (*message.mutable_logit_bias())[id] = bias;
      (*message.mutable_logit_bias())[66] = 1;
      body["logit_bias"] = {{std::to_string(id), bias}, {"66", 1.0}};
    }
    if (maybe()) {
      const int top = one_of<int>({0, 1, 20, 21, -1});
      message.set_top_logprobs(top);
      if (chat) body["logprobs"] = true;
      body[chat ? "top_logprobs" : "logprobs"] = top;
    }
  }

  void write_ends() {
    const auto flag = [&](const char* name, void (v1::GenerateRequest::*set)(bool)) {
      if (!maybe()) return;
      const bool value = below(2) == 0;
      (message.*set)(value);
      body[name] = value;
    };
    flag("echo", &v1::GenerateRequest::set_echo);
    flag("ignore_eos", &v1::GenerateRequest::set_ignore_eos);
    flag("include_stop_str_in_output", &v1::GenerateRequest::set_include_stop_str_in_output);
    if (maybe()) {
      const auto stops =
          one_of<std::vector<std::string>>({{"a"}, {"x", "yz"}, {""}, std::vector<std::string>(17, "s"), {std::string(1025, 's')}});
      for (const std::string& stop : stops) message.add_stop(stop);
      body["stop"] = stops;
    }
    if (maybe()) {
      const auto ids = one_of<std::vector<std::int32_t>>({{5}, {5, 9, 5}, {258}});
      message.mutable_stop_token_ids()->Add(ids.begin(), ids.end());
      body["stop_token_ids"] = ids;
    }
    if (maybe()) {
      const auto [value, name] =
          one_of<std::pair<v1::Transfer, std::string>>({{v1::TRANSFER_BF16, "bf16"},
                                                        {v1::TRANSFER_LOSSLESS, "lossless"},
                                                        {v1::TRANSFER_INT8, "int8"},
                                                        {v1::TRANSFER_INT4, "int4"},
                                                        {v1::TRANSFER_PROGRESSIVE_INT8, "progressive-int8"},
                                                        {v1::TRANSFER_PROGRESSIVE_EXACT, "progressive-exact"}});
      message.mutable_lynx()->set_transfer(value);
      body["lynx"]["transfer"] = name;
    }
    if (maybe()) {
      const auto [value, name] = one_of<std::pair<v1::Gap, std::string>>({{v1::GAP_DRAFT, "draft"}, {v1::GAP_WAIT, "wait"}});
      message.mutable_lynx()->set_gap(value);
      body["lynx"]["gap"] = name;
    }
    if (maybe()) {
      const bool value = one_of<bool>({true, false});
      message.mutable_lynx()->set_receipt(value);
      body["lynx"]["receipt"] = value;
    }
    if (maybe()) {
      const bool value = one_of<bool>({true, false});
      message.mutable_lynx()->set_provisional(value);
      body["lynx"]["provisional"] = value;
      body["stream"] = true;  // As every call is.
    }
    if (maybe()) {
      const auto name = one_of<std::string>({"tiny", "org/tiny", "other"});
      message.set_model(name);
      body["model"] = name;
    }
  }

  std::mt19937_64 random_;
};

void check_field(const v1::GenerateRequest& request, const std::string& field, const std::string& words) {
  const Model model;
  const auto plan = plan_generate(request, model.backend, "id");
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().status == 400);
  CHECK(plan.error().param.value_or("") == field);
  CHECK(plan.error().message.find(words) != std::string::npos);
}

v1::GenerateRequest text_request() {
  v1::GenerateRequest request;
  request.set_text("hi");
  return request;
}

}  // namespace

TEST_CASE("a message plans what the HTTP body that says the same plans") {
  const Model model;
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world(seed);
    INFO(fmt::format("seed {}: {}", seed, dump_json(world.body)));
    const auto ours = plan_generate(world.message, model.backend, "id");
    const auto http = world.chat ? plan_chat(world.body, model.backend, "id") : plan_completion(world.body, model.backend, "id");
    REQUIRE(ours.ok() == http.ok());
    if (!ours.ok()) {
      ++refused;
      CHECK(ours.error().status == http.error().status);
      CHECK(ours.error().param.has_value() == http.error().param.has_value());
      continue;
    }
    ++accepted;
    REQUIRE(ours.value().requests.size() == 1);
    check_same(ours.value().requests[0], http.value().requests[0], world.message.has_seed());
    CHECK(ours.value().echo == http.value().echo);
    CHECK(ours.value().with_logprobs == http.value().with_logprobs);
    CHECK(ours.value().head.model == http.value().head.model);
    CHECK(ours.value().prompts[0].text == http.value().prompts[0].text);
    CHECK(ours.value().prompts[0].hidden_bos_tokens == http.value().prompts[0].hidden_bos_tokens);
  }
  CHECK(accepted > kWorlds / 10);
  CHECK(refused > kWorlds / 10);
}

TEST_CASE("an explicit zero is not an absent field") {
  const Model model;
  v1::GenerateRequest request = text_request();
  CHECK(plan_generate(request, model.backend, "id").value().requests[0].sampling.temperature == 1.0F);
  request.set_temperature(0);
  request.set_seed(0);
  const auto plan = plan_generate(request, model.backend, "id");
  CHECK(plan.value().requests[0].sampling.temperature == 0.0F);
  CHECK(plan.value().requests[0].sampling.seed == 0U);
  request.set_max_tokens(0);
  check_field(request, "max_tokens", "at least 1");
}

TEST_CASE("errors name the field as the schema does") {
  check_field({}, "prompt", "'text', 'tokens' and 'chat'");
  v1::GenerateRequest request;
  request.mutable_tokens();
  check_field(request, "tokens.ids", "empty");
  request.mutable_tokens()->add_ids(3);
  request.mutable_tokens()->add_ids(258);
  check_field(request, "tokens.ids[1]", "0 to 257");
  request.set_text("");
  request.set_add_special_tokens(false);  // With a bos it would not be empty.
  check_field(request, "text", "empty");
  request.set_text(std::string(257, 'x'));
  check_field(request, "text", "maximum context length is 256");
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->add_messages()->set_role("nobody");
  check_field(request, "chat.messages[1].role", "nobody");
  request.mutable_chat()->mutable_messages(1)->set_role("user");
  request.mutable_chat()->set_chat_template_kwargs("{");
  check_field(request, "chat.chat_template_kwargs", "JSON");
  request.mutable_chat()->clear_chat_template_kwargs();
  request.set_echo(true);
  check_field(request, "echo", "not supported");
  request = text_request();
  request.set_top_logprobs(21);
  check_field(request, "top_logprobs", "0 to 20");
  request = text_request();
  request.set_temperature(std::numeric_limits<double>::quiet_NaN());
  check_field(request, "temperature", "0 to 2");
  request = text_request();
  request.mutable_lynx()->set_transfer(static_cast<v1::Transfer>(99));
  check_field(request, "lynx.transfer", "99");
  request = text_request();
  request.mutable_lynx()->set_gap(static_cast<v1::Gap>(7));
  check_field(request, "lynx.gap", "7");
}

TEST_CASE("lists are bounded before they are copied") {
  v1::GenerateRequest request = text_request();
  for (int i = 0; i < 200'000; ++i) (*request.mutable_logit_bias())[i] = 1;
  check_field(request, "logit_bias", "at most 4096");
  request = text_request();
  for (int i = 0; i < 200'000; ++i) request.add_stop("x");
  check_field(request, "stop", "at most 16");
  request = text_request();
  request.mutable_stop_token_ids()->Resize(4'200'000, 1);
  check_field(request, "stop_token_ids", "at most");
  request.Clear();
  request.mutable_tokens()->mutable_ids()->Resize(4'200'000, 1);
  check_field(request, "tokens.ids", "at most");
  request.Clear();
  for (int i = 0; i < (1 << 19) + 1; ++i) request.mutable_chat()->add_messages();
  check_field(request, "chat.messages", "at most");
}

TEST_CASE("tokenizing and its reverse") {
  const Model model;
  v1::TokenizeRequest request;
  CHECK(encode_for_tokenize(request, model.backend).error().param == "input");
  request.set_text("hi");
  CHECK(encode_for_tokenize(request, model.backend).value().tokens == std::vector<std::int32_t>{testing::kTurnToken, 'h', 'i'});
  request.set_add_special_tokens(false);
  CHECK(encode_for_tokenize(request, model.backend).value().tokens == std::vector<std::int32_t>{'h', 'i'});
  request.set_model("other");
  CHECK(encode_for_tokenize(request, model.backend).error().status == 404);
  request.clear_model();
  auto* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("a");
  CHECK(encode_for_tokenize(request, model.backend).value().text == "<|turn|>user:a<|end|><|turn|>assistant:");
  message->set_role("nobody");
  CHECK(encode_for_tokenize(request, model.backend).error().param == "chat.messages[0].role");

  v1::DetokenizeRequest back;
  for (const int id : {0x68, 0xC3, 0x69, testing::kEndToken}) back.add_tokens(id);
  CHECK(detokenize(back, model.backend).value() == "h\uFFFDi<|end|>");
  back.add_tokens(258);
  CHECK(detokenize(back, model.backend).error().param == "tokens[4]");
}

}  // namespace lynx::server
