#include "server/openai_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace lynx::server {
namespace {

std::uint64_t draw_seed() {
  static thread_local std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// Cuts the rendered text behind the final message's content, so that the model goes on writing that message.
ApiResult<std::string> cut_behind_final_message(std::string rendered, const Json& final_message) {
  std::string content = final_message.at("content").get<std::string>();
  const auto first = content.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return field_error("continue_final_message", "the final message has no content to continue");
  // Templates may trim: look for the trimmed content, and keep trailing blanks that survived.
  const std::string trimmed = content.substr(first, content.find_last_not_of(" \t\r\n") - first + 1);
  const auto at = rendered.rfind(trimmed);
  if (at == std::string::npos) {
    return field_error("continue_final_message", "the chat template does not print the final message as it is");
  }
  const std::string whole = content.substr(first);
  rendered.resize(at + (rendered.compare(at, whole.size(), whole) == 0 ? whole.size() : trimmed.size()));
  return rendered;
}

ApiResult<std::string> render(const ChatPrompt& prompt, const TextTools& tools) {
  if (tools.chat_template == nullptr) {
    return plain_error(400, "this model has no chat template; use /v1/completions", "no_chat_template");
  }
  const auto special = [&](std::int32_t id) { return id < 0 ? std::string() : std::string(tools.tokenizer->token_bytes(id)); };
  Json variables = {{"messages", prompt.messages},
                    {"add_generation_prompt", prompt.add_generation_prompt},
                    {"tools", nullptr},
                    {"documents", nullptr},
                    {"bos_token", special(tools.tokenizer->bos())},
                    {"eos_token", special(tools.tokenizer->eos())}};
  for (const auto& [key, value] : prompt.template_kwargs.items()) variables[key] = value;
  auto rendered = tools.chat_template->render(variables);
  if (!rendered.ok()) {
    return field_error("messages", "the chat template cannot render the messages: " + rendered.status().message());
  }
  if (!prompt.continue_final_message) return std::move(rendered).value();
  return cut_behind_final_message(std::move(rendered).value(), prompt.messages.back());
}

}  // namespace

ApiResult<EncodedPrompt> encode_prompt(const PromptInput& input, bool add_special_tokens, const TextTools& tools,
                                       const std::string& path) {
  const text::Tokenizer& tokenizer = *tools.tokenizer;
  EncodedPrompt encoded;
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&input)) {
    encoded.tokens = *ids;
    encoded.text = tokenizer.decode(*ids, false);
    return encoded;
  }
  encoded.text = std::get<std::string>(input);
  auto tokens = tokenizer.encode(encoded.text, true);
  if (!tokens.ok()) return field_error(path, tokens.status().message());
  encoded.tokens = std::move(tokens).value();
  if (add_special_tokens && tokenizer.add_bos()) {
    encoded.tokens.insert(encoded.tokens.begin(), tokenizer.bos());
    encoded.hidden_bos_tokens = 1;
  }
  if (encoded.tokens.empty()) return field_error(path, "a prompt must not be empty");
  return encoded;
}

ApiResult<EncodedPrompt> encode_chat(const ChatPrompt& prompt, const TextTools& tools) {
  auto rendered = render(prompt, tools);
  if (!rendered.ok()) return rendered.error();
  auto tokens = tools.tokenizer->encode(rendered.value(), true);
  if (!tokens.ok()) return field_error("messages", tokens.status().message());
  if (tokens->empty()) return field_error("messages", "the chat template rendered nothing");
  return EncodedPrompt{.tokens = std::move(tokens).value(), .text = std::move(rendered.value())};
}

ApiResult<GenerateRequest> make_generate_request(const GenerationOptions& options, std::vector<std::int32_t> tokens,
                                                 std::string request_id, int max_model_len, const std::string& path) {
  const int room = max_model_len - static_cast<int>(tokens.size());
  const bool generates = options.max_tokens != 0;
  if (room < (generates ? 1 : 0)) {
    return field_error(
        path,
        fmt::format("This model's maximum context length is {} tokens, but the prompt has {} tokens{}. Please "
                    "shorten the prompt.",
                    max_model_len, tokens.size(), generates ? " and at least one more is needed for the answer" : ""),
        "context_length_exceeded");
  }
  GenerateRequest request;
  request.request_id = std::move(request_id);
  request.prompt = std::move(tokens);
  request.sampling = options.sampling;
  if (!request.sampling.seed) request.sampling.seed = draw_seed();
  request.max_tokens = std::min(options.max_tokens.value_or(room), room);
  request.fit_max_tokens = !options.max_tokens || *options.max_tokens > room;
  request.choices = options.choices;
  request.stop = options.stop;
  request.stop_token_ids = options.stop_token_ids;
  request.include_stop_text = options.include_stop_text;
  request.ignore_eos = options.ignore_eos;
  request.transfer = options.lynx.transfer;
  request.gap = options.lynx.gap;
  request.provisional = options.lynx.provisional;
  request.receipt = options.lynx.receipt;
  request.top_logprobs = options.top_logprobs;
  return request;
}

}  // namespace lynx::server
