#include "server/generation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/http_call.h"
#include "server/openai_fields.h"

namespace lynx::server {
namespace {

constexpr std::size_t kMaxEchoScores = std::size_t{4} << 20;
constexpr std::size_t kMaxEchoBytes = std::size_t{64} << 20;

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
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

}  // namespace

ApiResult<GenerationPlan> plan_completion(const Json& body, const ServingBackend& backend, const std::string& request_id) {
  auto parsed = parse_completion_request(body, backend.limits);
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

ApiResult<GenerationPlan> plan_chat(const Json& body, const ServingBackend& backend, const std::string& request_id) {
  auto parsed = parse_chat_request(body, backend.limits);
  if (!parsed.ok()) return parsed.error();
  const ChatRequest& request = parsed.value();
  auto prompt = encode_chat(request.prompt, backend.text);
  if (!prompt.ok()) return prompt.error();
  GenerationPlan plan = plan_for(request.options, true);
  if (auto error = add_prompt(std::move(prompt.value()), request.options, backend, request_id, "messages", &plan)) return *error;
  return plan;
}

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

}  // namespace lynx::server
