// The routes of HttpApi that need the model.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/http_api.h"
#include "server/openai_fields.h"

namespace lynx::server {
namespace {

constexpr std::size_t kMaxEchoScores = std::size_t{4} << 20;
constexpr std::size_t kMaxEchoBytes = std::size_t{64} << 20;
constexpr std::string_view kModelPrefix = "/v1/models/";

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json model_card(const ServingBackend& backend, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", backend.created},
          {"owned_by", "lynx"},
          {"root", backend.limits.model_names.front()},
          {"max_model_len", backend.limits.max_model_len}};
}

GenerationPlan plan_for(const GenerationOptions& options, bool chat) {
  GenerationPlan plan;
  plan.head = {.id = random_id(chat ? "chatcmpl-" : "cmpl-"), .created = unix_seconds(), .model = options.model, .chat = chat};
  plan.with_logprobs = options.top_logprobs >= 0;
  plan.stream = options.stream;
  plan.include_usage = options.include_usage;
  plan.choices_per_prompt = options.choices;
  return plan;
}

/// Adds one prompt to the plan; the engine's id says which HTTP request it belongs to. `path` names the prompt in errors.
std::optional<ApiError> add_prompt(EncodedPrompt prompt, const GenerationOptions& options, const ServingBackend& backend,
                                   const std::string& request_id, const std::string& path, GenerationPlan* plan) {
  auto request = make_generate_request(options, std::move(prompt.tokens),
                                       fmt::format("{}/{}.{}", request_id, plan->head.id, plan->requests.size()),
                                       backend.limits.max_model_len, path);
  if (!request.ok()) return request.error();
  plan->requests.push_back(std::move(request.value()));
  plan->prompts.push_back(std::move(prompt));
  return std::nullopt;
}

/// An echo is answered at once, for every choice again: what it takes is bounded here. Score entries are alternatives included.
std::optional<ApiError> check_echo_size(const GenerationPlan& plan) {
  std::size_t scores = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    const GenerateRequest& request = plan.requests[i];
    if (plan.with_logprobs) scores += request.prompt.size() * static_cast<std::size_t>(request.top_logprobs + 1);
    bytes += plan.prompts[i].text.size();
  }
  const auto choices = static_cast<std::size_t>(plan.choices_per_prompt);
  if (scores * choices > kMaxEchoScores) {
    return field_error("logprobs", fmt::format("'echo' with 'logprobs' would answer {} log probabilities (prompt tokens times 'n' "
                                               "times 'logprobs' + 1); at most {} are possible in one request",
                                               scores * choices, kMaxEchoScores));
  }
  if (bytes * choices > kMaxEchoBytes) {
    return field_error("echo", fmt::format("'echo' would answer {} bytes of prompts; at most {} are possible in one request",
                                           bytes * choices, kMaxEchoBytes));
  }
  return std::nullopt;
}

ApiResult<GenerationPlan> plan_completion(const std::string& body, const ServingBackend& backend, const std::string& request_id) {
  auto json = parse_json_object(body);
  if (!json.ok()) return json.error();
  auto parsed = parse_completion_request(json.value(), backend.limits);
  if (!parsed.ok()) return parsed.error();
  const CompletionRequest& request = parsed.value();
  GenerationPlan plan = plan_for(request.options, false);
  plan.echo = request.echo;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string path = request.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    auto prompt = encode_prompt(request.prompts[i], request.add_special_tokens, backend.text, path);
    if (!prompt.ok()) return prompt.error();
    if (auto error = add_prompt(std::move(prompt.value()), request.options, backend, request_id, path, &plan)) return *error;
    GenerateRequest& last = plan.requests.back();
    // The engine generates nothing only when it scores the prompt instead.
    const bool score_prompt = request.echo && (plan.with_logprobs || last.max_tokens == 0);
    if (score_prompt) last.prompt_top_logprobs = std::max(0, request.options.top_logprobs);
  }
  if (plan.echo) {
    if (auto error = check_echo_size(plan)) return *error;
  }
  return plan;
}

ApiResult<GenerationPlan> plan_chat(const std::string& body, const ServingBackend& backend, const std::string& request_id) {
  auto json = parse_json_object(body);
  if (!json.ok()) return json.error();
  auto parsed = parse_chat_request(json.value(), backend.limits);
  if (!parsed.ok()) return parsed.error();
  const ChatRequest& request = parsed.value();
  auto prompt = encode_chat(request.prompt, backend.text);
  if (!prompt.ok()) return prompt.error();
  GenerationPlan plan = plan_for(request.options, true);
  if (auto error = add_prompt(std::move(prompt.value()), request.options, backend, request_id, "messages", &plan)) return *error;
  return plan;
}

/// /tokenize: the prompt as /v1/completions or, with `messages`, /v1/chat/completions would see it.
ApiResult<EncodedPrompt> encode_for_tokenize(const Json& body, const ServingBackend& backend) {
  if (auto error = check_model(body, backend.limits)) return *error;
  FieldReader reader(body);
  if (reader.find("messages") != nullptr) {
    auto prompt = parse_chat_prompt(body);
    if (!prompt.ok()) return prompt.error();
    return encode_chat(prompt.value(), backend.text);
  }
  const auto prompt = reader.string("prompt");
  const bool add_special_tokens = reader.boolean("add_special_tokens").value_or(true);
  if (!prompt) reader.fail("prompt", "'prompt' or 'messages' is required");
  if (reader.error()) return *reader.error();
  if (prompt->empty()) return EncodedPrompt{};
  return encode_prompt(*prompt, add_special_tokens, backend.text, "prompt");
}

}  // namespace

void HttpApi::models(const HttpRequest&, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  Json list = Json::array();
  for (const std::string& name : backend.limits.model_names) list.push_back(model_card(backend, name));
  call->respond_json(dump_json({{"object", "list"}, {"data", std::move(list)}}));
}

void HttpApi::model(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  const std::string name = request.path.substr(kModelPrefix.size());
  if (auto error = check_model({{"model", name}}, backend.limits)) return call->respond_error(*error);
  call->respond_json(dump_json(model_card(backend, name)));
}

void HttpApi::completions(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto plan = plan_completion(request.body, backend, call->request_id());
  if (!plan.ok()) return call->respond_error(plan.error());
  start_generation(std::move(plan.value()), call, backend);
}

void HttpApi::chat_completions(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto plan = plan_chat(request.body, backend, call->request_id());
  if (!plan.ok()) return call->respond_error(plan.error());
  start_generation(std::move(plan.value()), call, backend);
}

void HttpApi::start_generation(GenerationPlan plan, const CallPtr& call, const ServingBackend& backend) {
  auto shared = std::make_shared<GenerationPlan>(std::move(plan));
  server_.io().post([this, shared, call, &backend] {
    if (sessions_.size() >= sweep_at_) {
      std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
      sweep_at_ = kFirstSweep + 2 * sessions_.size();
    }
    sessions_.push_back(GenerationSession::start(std::move(*shared), call, *backend.engine, server_.io(), *backend.text.tokenizer));
  });
}

void HttpApi::abort_generations() {
  server_.io().post([this] {
    for (const auto& weak : sessions_) {
      if (auto session = weak.lock()) session->fail(plain_error(503, "the server is shutting down", "draining"));
    }
  });
}

void HttpApi::tokenize(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  FieldReader reader(json.value());
  const bool with_strings = reader.boolean("return_token_strs").value_or(false);
  if (reader.error()) return call->respond_error(*reader.error());
  auto encoded = encode_for_tokenize(json.value(), backend);
  if (!encoded.ok()) return call->respond_error(encoded.error());
  Json body = {{"count", encoded->tokens.size()},
               {"max_model_len", backend.limits.max_model_len},
               {"tokens", encoded->tokens},
               {"token_strs", nullptr}};
  if (with_strings) {
    Json strings = Json::array();
    for (const std::int32_t id : encoded->tokens) strings.push_back(std::string(backend.text.tokenizer->token_bytes(id)));
    body["token_strs"] = std::move(strings);
  }
  call->respond_json(dump_json(body));
}

void HttpApi::detokenize(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  if (auto error = check_model(json.value(), backend.limits)) return call->respond_error(*error);
  FieldReader reader(json.value());
  if (reader.find("tokens") == nullptr) reader.fail("tokens", "'tokens' is required");
  const auto tokens = reader.token_ids("tokens", backend.limits.vocabulary);
  if (reader.error()) return call->respond_error(*reader.error());
  call->respond_json(dump_json({{"prompt", backend.text.tokenizer->decode(tokens, false)}}));
}

void HttpApi::tokenizer_info(const HttpRequest&, const CallPtr& call) {
  const text::Tokenizer& tokenizer = *backend_.load()->text.tokenizer;
  const auto special = [&](std::int32_t id) { return id < 0 ? Json(nullptr) : Json(std::string(tokenizer.token_bytes(id))); };
  call->respond_json(dump_json({{"eos_token", special(tokenizer.eos())},
                                {"bos_token", special(tokenizer.bos())},
                                {"add_bos_token", tokenizer.add_bos()},
                                {"vocab_size", tokenizer.vocabulary()}}));
}

}  // namespace lynx::server
