#pragma once

// Request bodies of the OpenAI surface → typed requests. Pure: nothing here looks at the engine or the network.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/sampling_params.h"
#include "server/engine.h"
#include "server/lynx_options.h"
#include "server/openai_error.h"
#include "server/openai_json.h"

namespace lynx::server {

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxPrompts = 1024;
inline constexpr int kMaxTotalChoices = 2048;  ///< Prompts times n.
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopBytes = 1024;       ///< Of one stop string.
inline constexpr int kMaxTotalStopBytes = 4096;  ///< Of all of them.
inline constexpr int kMaxStopTokenIds = 1024;    ///< Different ones.
inline constexpr int kMaxLogitBiases = 4096;
inline constexpr int kMaxPromptOptions = 1 << 19;  ///< Prompts times what each keeps: stop bytes, stop_token_ids, logit_bias.
inline constexpr int kMaxTemplateKwargs = 256;
inline constexpr int kMaxTopLogprobs = 20;

/// What the served model allows.
struct RequestLimits {
  std::vector<std::string> model_names;  ///< Any of them may be asked for; the first is the model's id.
  int vocabulary = 0;
  int max_model_len = 0;
};

/// What completions and chat have in common.
struct GenerationOptions {
  std::string model;  ///< As asked for, else the model's id.
  model::SamplingParams sampling;
  std::optional<int> max_tokens;
  int choices = 1;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool include_stop_text = false;
  bool ignore_eos = false;
  LynxOptions lynx;
  int top_logprobs = -1;  ///< −1 = no logprobs.
  bool stream = false;
  bool include_usage = false;
};

/// Text to be tokenized, or tokens as they are.
using PromptInput = std::variant<std::string, std::vector<std::int32_t>>;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<PromptInput> prompts;  ///< At least one.
  bool add_special_tokens = true;    ///< A leading bos, where the model wants one.
  bool echo = false;
};

/// Messages as a chat template takes them: role and content, a string.
struct ChatPrompt {
  Json messages = Json::array();
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  Json template_kwargs = Json::object();
};

struct ChatRequest {
  GenerationOptions options;
  ChatPrompt prompt;
};

/// Errors name the field. What is known and not supported (tools, images, JSON schemas…) is refused by name; unknown fields are
/// ignored, except in our own `lynx` object.
ApiResult<CompletionRequest> parse_completion_request(const Json& body, const RequestLimits& limits);
ApiResult<ChatRequest> parse_chat_request(const Json& body, const RequestLimits& limits);

/// The messages and template options of a chat (or /tokenize) body.
ApiResult<ChatPrompt> parse_chat_prompt(const Json& body);
/// The `prompt` of a completions body.
ApiResult<std::vector<PromptInput>> parse_prompts(const Json& body, const RequestLimits& limits);
/// 404 unless the `model` of the body, if any, is served here.
std::optional<ApiError> check_model(const Json& body, const RequestLimits& limits);

}  // namespace lynx::server
