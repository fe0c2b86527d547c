#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "server/openai_fields.h"
#include "server/openai_request.h"

namespace lynx::server {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

/// A text part's text; several parts are joined by newlines, as vLLM does for templates that take strings.
ApiResult<std::string> join_parts(const Json& parts, const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string where = fmt::format("{}[{}]", path, i);
    if (!part.is_object()) return field_error(where, fmt::format("a content part must be an object, not {}", json_kind(part)));
    FieldReader reader(part);
    const auto type = reader.string("type");
    const auto piece = reader.string("text");
    if (!type) return field_error(where + ".type", "a content part needs a string 'type'");
    if (*type != "text") {
      return field_error(where + ".type",
                         fmt::format("content parts of type '{}' are not supported; only 'text' is", type->substr(0, 64)),
                         "unsupported_content");
    }
    if (!piece) return field_error(where + ".text", "a text part needs a string 'text'");
    if (i > 0) text += '\n';
    text += *piece;
  }
  return text;
}

ApiResult<std::string> read_content(const Json& message, const std::string& path) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (content->is_array()) return join_parts(*content, path + ".content");
  return field_error(path + ".content",
                     fmt::format("'content' must be a string or an array of parts, not {}", json_kind(*content)));
}

ApiResult<Json> read_message(const Json& message, const std::string& path) {
  if (!message.is_object()) return field_error(path, fmt::format("a message must be an object, not {}", json_kind(message)));
  FieldReader reader(message);
  auto role = reader.string("role");
  if (!role) return field_error(path + ".role", "a message needs a string 'role'");
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    return field_error(path + ".role", fmt::format("unknown role '{}'; known are system, developer, user, assistant and tool",
                                                   role->substr(0, 64)));
  }
  for (const char* name : {"tool_calls", "function_call", "audio"}) {
    if (const Json* value = reader.find(name); value != nullptr && !(value->is_array() && value->empty())) {
      return field_error(path + "." + name, fmt::format("'{}' in a message is not supported", name), "unsupported_parameter");
    }
  }
  auto content = read_content(message, path);
  if (!content.ok()) return content.error();
  // Templates know the older name of this role.
  if (*role == "developer") role = "system";
  Json out = {{"role", *role}, {"content", std::move(content.value())}};
  for (const char* name : {"name", "tool_call_id"}) {
    if (const auto value = reader.string(name)) out[name] = *value;
  }
  if (reader.error()) return field_error(path + "." + reader.error()->param.value_or(""), reader.error()->message);
  return out;
}

ApiResult<std::vector<std::int32_t>> read_token_prompt(const Json& array, const std::string& path, int vocabulary) {
  if (array.empty()) return field_error(path, "a prompt must not be empty");
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const Json& item : array) {
    const auto id = whole_number(item);
    if (!id || *id < 0 || *id >= vocabulary) {
      return field_error(fmt::format("{}[{}]", path, ids.size()),
                         fmt::format("a prompt of token ids must hold integers from 0 to {}", vocabulary - 1));
    }
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace

ApiResult<std::vector<PromptInput>> parse_prompts(const Json& body, const RequestLimits& limits) {
  FieldReader reader(body);
  std::vector<PromptInput> prompts;
  const Json* prompt = reader.find("prompt");
  if (prompt == nullptr) return field_error("prompt", "'prompt' is required");
  if (prompt->is_string()) return std::vector<PromptInput>{prompt->get<std::string>()};
  if (!prompt->is_array()) {
    return field_error("prompt",
                       fmt::format("'prompt' must be a string or an array of strings or token ids, not {}", json_kind(*prompt)));
  }
  if (prompt->empty()) return field_error("prompt", "'prompt' must not be an empty array");
  if (prompt->front().is_number()) {
    auto ids = read_token_prompt(*prompt, "prompt", limits.vocabulary);
    if (!ids.ok()) return ids.error();
    return std::vector<PromptInput>{std::move(ids.value())};
  }
  if (prompt->size() > kMaxPrompts) return field_error("prompt", fmt::format("at most {} prompts in a request", kMaxPrompts));
  for (std::size_t i = 0; i < prompt->size(); ++i) {
    const Json& item = (*prompt)[i];
    const std::string path = fmt::format("prompt[{}]", i);
    if (item.type() != prompt->front().type() || !(item.is_string() || item.is_array())) {
      return field_error(path, "'prompt' must hold either strings or arrays of token ids");
    }
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
      continue;
    }
    auto ids = read_token_prompt(item, path, limits.vocabulary);
    if (!ids.ok()) return ids.error();
    prompts.emplace_back(std::move(ids.value()));
  }
  return prompts;
}

ApiResult<ChatPrompt> parse_chat_prompt(const Json& body) {
  ChatPrompt prompt;
  FieldReader reader(body);
  const Json* messages = reader.find("messages");
  if (messages == nullptr) return field_error("messages", "'messages' is required");
  if (!messages->is_array() || messages->empty())
    return field_error("messages", "'messages' must be an array with a message in it");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    auto message = read_message((*messages)[i], fmt::format("messages[{}]", i));
    if (!message.ok()) return message.error();
    prompt.messages.push_back(std::move(message.value()));
  }
  prompt.continue_final_message = reader.boolean("continue_final_message").value_or(false);
  prompt.add_generation_prompt = reader.boolean("add_generation_prompt").value_or(!prompt.continue_final_message);
  if (prompt.continue_final_message && prompt.add_generation_prompt) {
    reader.fail("add_generation_prompt", "'add_generation_prompt' and 'continue_final_message' exclude each other");
  }
  if (const Json* kwargs = reader.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) {
      reader.fail("chat_template_kwargs", "'chat_template_kwargs' must be an object");
    } else if (kwargs->size() > kMaxTemplateKwargs) {
      reader.fail("chat_template_kwargs", fmt::format("'chat_template_kwargs' may have at most {} keys", kMaxTemplateKwargs));
    } else if (kwargs->contains("messages")) {
      reader.fail("chat_template_kwargs.messages", "'chat_template_kwargs' must not replace the messages");
    } else {
      prompt.template_kwargs = *kwargs;
    }
  }
  if (reader.error()) return *reader.error();
  return prompt;
}

}  // namespace lynx::server
