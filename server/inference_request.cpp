#include "server/inference_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/inference_response.h"
#include "server/openai_fields.h"

namespace lynx::server {
namespace {

// A message is written as the HTTP body that says the same and read by the HTTP front's parsers. So there is one set of limits,
// defaults and errors, and the two fronts cannot drift apart. Of a list that is too long, one entry too many is written: enough to
// be refused.

/// Chat messages in one request. An empty message is two bytes on the wire and hundreds in memory.
constexpr int kMaxMessages = 1 << 19;

std::optional<ApiError> check_count(std::string_view field, int count, std::size_t most) {
  if (static_cast<std::size_t>(count) <= most) return std::nullopt;
  return field_error(std::string(field), fmt::format("{} entries; at most {} are possible in one request", count, most));
}

template <class Repeated>
Json array_of(const Repeated& values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(value);
  return array;
}

/// The body's entries for a chat: messages and template options.
std::optional<ApiError> put_chat(const v1::Chat& chat, Json* body) {
  if (auto error = check_count("messages", chat.messages_size(), kMaxMessages)) return error;
  Json messages = Json::array();
  for (const v1::ChatMessage& message : chat.messages()) {
    Json& out = messages.emplace_back(Json{{"role", message.role()}, {"content", message.content()}});
    if (message.has_name()) out["name"] = message.name();
    if (message.has_tool_call_id()) out["tool_call_id"] = message.tool_call_id();
  }
  (*body)["messages"] = std::move(messages);
  if (chat.has_add_generation_prompt()) (*body)["add_generation_prompt"] = chat.add_generation_prompt();
  if (chat.has_continue_final_message()) (*body)["continue_final_message"] = chat.continue_final_message();
  if (chat.has_chat_template_kwargs()) {
    auto kwargs = parse_json_object(chat.chat_template_kwargs());
    if (!kwargs.ok()) return field_error("chat_template_kwargs", kwargs.error().message);
    (*body)["chat_template_kwargs"] = std::move(kwargs.value());
  }
  return std::nullopt;
}

void put_sampling(const v1::GenerateRequest& request, Json* body) {
  Json& out = *body;
  if (request.has_temperature()) out["temperature"] = request.temperature();
  if (request.has_top_p()) out["top_p"] = request.top_p();
  if (request.has_top_k()) out["top_k"] = request.top_k();
  if (request.has_min_p()) out["min_p"] = request.min_p();
  if (request.has_repetition_penalty()) out["repetition_penalty"] = request.repetition_penalty();
  if (request.has_frequency_penalty()) out["frequency_penalty"] = request.frequency_penalty();
  if (request.has_presence_penalty()) out["presence_penalty"] = request.presence_penalty();
  if (request.has_seed()) out["seed"] = request.seed();
  if (request.logit_bias_size() == 0) return;
  Json::object_t biases;
  for (const auto& [id, bias] : request.logit_bias()) {
    // Appended as to a vector, for looking for the key each time would be quadratic; a map's keys differ anyway.
    biases.emplace_back(fmt::to_string(id), bias);
    if (biases.size() > kMaxLogitBiases) break;
  }
  out["logit_bias"] = std::move(biases);
}

std::optional<ApiError> put_lynx(const v1::LynxOptions& options, Json* body) {
  Json out = Json::object();
  if (options.has_transfer() && options.transfer() != v1::TRANSFER_UNSPECIFIED) {
    const auto mode = std::find_if(kTransferModes.begin(), kTransferModes.end(),
                                   [&](TransferMode one) { return transfer_value(one) == options.transfer(); });
    if (mode == kTransferModes.end()) {
      return field_error("lynx.transfer", fmt::format("unknown value {}", static_cast<int>(options.transfer())));
    }
    out["transfer"] = transfer_mode_name(*mode);
  }
  if (options.has_gap() && options.gap() != v1::GAP_UNSPECIFIED) {
    if (options.gap() != v1::GAP_DRAFT && options.gap() != v1::GAP_WAIT) {
      return field_error("lynx.gap", fmt::format("unknown value {}", static_cast<int>(options.gap())));
    }
    out["gap"] = gap_mode_name(options.gap() == v1::GAP_DRAFT ? GapMode::kDraft : GapMode::kWait);
  }
  if (options.has_receipt()) out["receipt"] = options.receipt();
  if (options.has_provisional()) {
    out["provisional"] = options.provisional();
    (*body)["stream"] = true;  // Every call here is one.
  }
  (*body)["lynx"] = std::move(out);
  return std::nullopt;
}

/// Everything but the prompt.
std::optional<ApiError> put_options(const v1::GenerateRequest& request, Json* body) {
  Json& out = *body;
  if (request.has_model()) out["model"] = request.model();
  if (request.has_max_tokens()) out["max_tokens"] = request.max_tokens();
  if (request.has_min_tokens()) out["min_tokens"] = request.min_tokens();
  if (request.has_n()) out["n"] = request.n();
  if (request.has_echo()) out["echo"] = request.echo();
  put_sampling(request, body);
  for (const std::string& stop : request.stop()) {
    out["stop"].push_back(stop);
    if (out["stop"].size() > kMaxStopStrings) break;
  }
  if (auto error = check_count("stop_token_ids", request.stop_token_ids_size(), kMaxJsonNodes)) return error;
  if (request.stop_token_ids_size() > 0) out["stop_token_ids"] = array_of(request.stop_token_ids());
  if (request.has_include_stop_str_in_output()) out["include_stop_str_in_output"] = request.include_stop_str_in_output();
  if (request.has_ignore_eos()) out["ignore_eos"] = request.ignore_eos();
  if (request.has_top_logprobs()) {
    const bool chat = request.prompt_case() == v1::GenerateRequest::kChat;
    if (chat) out["logprobs"] = true;
    out[chat ? "top_logprobs" : "logprobs"] = request.top_logprobs();
  }
  return request.has_lynx() ? put_lynx(request.lynx(), body) : std::nullopt;
}

/// HTTP's name of a field → ours. `prompt`: the field that holds the prompt.
ApiError with_our_field(ApiError error, std::string_view prompt) {
  if (!error.param) return error;
  std::string& field = *error.param;
  if (field.starts_with("prompt")) {
    field.replace(0, std::string_view("prompt").size(), prompt);
  } else if (field == "logprobs") {
    field = "top_logprobs";
  } else if (prompt == "chat" && (field.starts_with("messages") || field.starts_with("chat_template_kwargs") ||
                                  field == "add_generation_prompt" || field == "continue_final_message")) {
    field = "chat." + field;
  }
  return error;
}

ApiResult<GenerationPlan> plan_of(const v1::GenerateRequest& request, const ServingBackend& backend,
                                  const std::string& request_id) {
  Json body = Json::object();
  if (auto error = put_options(request, &body)) return *error;
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText: body["prompt"] = request.text(); break;
    case v1::GenerateRequest::kTokens:
      if (auto error = check_count("prompt", request.tokens().ids_size(), kMaxJsonNodes)) return *error;
      body["prompt"] = array_of(request.tokens().ids());
      break;
    case v1::GenerateRequest::kChat:
      if (auto error = put_chat(request.chat(), &body)) return *error;
      return plan_chat(body, backend, request_id);
    default: return field_error("prompt", "one of 'text', 'tokens' and 'chat' is required");
  }
  if (request.has_add_special_tokens()) body["add_special_tokens"] = request.add_special_tokens();
  return plan_completion(body, backend, request_id);
}

std::string_view prompt_field(const v1::GenerateRequest& request) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText: return "text";
    case v1::GenerateRequest::kTokens: return "tokens.ids";
    case v1::GenerateRequest::kChat: return "chat";
    default: return "prompt";
  }
}

}  // namespace

ApiResult<GenerationPlan> plan_generate(const v1::GenerateRequest& request, const ServingBackend& backend,
                                        const std::string& request_id) {
  auto plan = plan_of(request, backend, request_id);
  if (!plan.ok()) return with_our_field(plan.error(), prompt_field(request));
  return plan;
}

ApiResult<EncodedPrompt> encode_for_tokenize(const v1::TokenizeRequest& request, const ServingBackend& backend) {
  Json body = Json::object();
  if (request.has_model()) body["model"] = request.model();
  if (request.input_case() == v1::TokenizeRequest::kChat) {
    if (auto error = put_chat(request.chat(), &body)) return with_our_field(*error, "chat");
  } else if (request.input_case() == v1::TokenizeRequest::kText) {
    body["prompt"] = request.text();
  } else {
    return field_error("input", "one of 'text' and 'chat' is required");
  }
  if (request.has_add_special_tokens()) body["add_special_tokens"] = request.add_special_tokens();
  auto encoded = encode_for_tokenize(body, backend);
  if (!encoded.ok()) {
    return with_our_field(encoded.error(), request.input_case() == v1::TokenizeRequest::kChat ? "chat" : "text");
  }
  return encoded;
}

ApiResult<std::string> detokenize(const v1::DetokenizeRequest& request, const ServingBackend& backend) {
  Json body = Json::object();
  if (request.has_model()) body["model"] = request.model();
  if (auto error = check_model(body, backend.limits)) return *error;
  for (int i = 0; i < request.tokens_size(); ++i) {
    if (request.tokens(i) >= 0 && request.tokens(i) < backend.limits.vocabulary) continue;
    return field_error(fmt::format("tokens[{}]", i),
                       fmt::format("'tokens' must hold token ids from 0 to {}", backend.limits.vocabulary - 1));
  }
  const std::vector<std::int32_t> tokens(request.tokens().begin(), request.tokens().end());
  return valid_utf8(backend.text.tokenizer->decode(tokens, false));
}

}  // namespace lynx::server
