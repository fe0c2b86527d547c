#include "server/openai_unsupported.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "server/openai_fields.h"

namespace lynx::server {
namespace {

/// Whether a value asks for nothing, so that ignoring it is what the client wants.
bool asks_for_nothing(const Json& value) {
  return value.is_null() || value == false || value == "" || ((value.is_object() || value.is_array()) && value.empty());
}

constexpr std::array kUnsupportedAnywhere = {
    "suffix",          "guided_json",   "guided_regex",      "guided_choice",      "guided_grammar",  "grammar",
    "json_schema",     "bad_words",     "allowed_token_ids", "structured_outputs", "prompt_logprobs", "truncate_prompt_tokens",
    "use_beam_search", "prompt_embeds", "logits_processors",
};
constexpr std::array kUnsupportedInChat = {
    "functions", "function_call", "audio", "web_search_options", "echo", "chat_template", "documents", "mm_processor_kwargs",
};

ApiError unsupported(std::string_view name) {
  return field_error(std::string(name), fmt::format("'{}' is not supported", name), "unsupported_parameter");
}

std::optional<ApiError> refuse_response_format(FieldReader& reader) {
  const Json* format = reader.find("response_format");
  if (format == nullptr) return std::nullopt;
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (!format->is_object() || type == format->end() || !type->is_string()) {
    return field_error("response_format", "'response_format' must be an object with a string 'type'");
  }
  if (*type == "text") return std::nullopt;
  return field_error("response_format",
                     fmt::format("'response_format' of type '{}' is not supported; only 'text' is",
                                 type->get_ref<const std::string&>().substr(0, 64)),
                     "unsupported_parameter");
}

std::optional<ApiError> refuse_common(FieldReader& reader) {
  for (const char* name : kUnsupportedAnywhere) {
    if (const Json* value = reader.find(name); value != nullptr && !asks_for_nothing(*value)) return unsupported(name);
  }
  if (!reader.boolean("skip_special_tokens").value_or(true)) return unsupported("skip_special_tokens");
  if (auto error = refuse_response_format(reader)) return error;
  return reader.error();
}

std::optional<ApiError> refuse_tools(FieldReader& reader) {
  if (const Json* tools = reader.find("tools")) {
    if (tools->is_array() && tools->empty()) return field_error("tools", "'tools' must not be an empty array");
    return unsupported("tools");
  }
  if (const Json* choice = reader.find("tool_choice"); choice != nullptr && *choice != "none") {
    return field_error("tool_choice", "'tool_choice' is only allowed with 'tools', which are not supported");
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> refuse_unsupported_completion(const Json& body) {
  FieldReader reader(body);
  return refuse_common(reader);
}

std::optional<ApiError> refuse_unsupported_chat(const Json& body) {
  FieldReader reader(body);
  if (auto error = refuse_common(reader)) return error;
  if (auto error = refuse_tools(reader)) return error;
  for (const char* name : kUnsupportedInChat) {
    if (const Json* value = reader.find(name); value != nullptr && !asks_for_nothing(*value)) return unsupported(name);
  }
  if (const Json* modalities = reader.find("modalities"); modalities != nullptr && *modalities != Json::array({"text"})) {
    return field_error("modalities", "only the modality 'text' is supported", "unsupported_parameter");
  }
  return std::nullopt;
}

}  // namespace lynx::server
