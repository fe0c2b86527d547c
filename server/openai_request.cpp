#include "server/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "server/openai_fields.h"
#include "server/openai_unsupported.h"

namespace lynx::server {
namespace {

constexpr std::int64_t kAnyMax = std::numeric_limits<std::int64_t>::max();

int clamp_to_int(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, INT32_MIN, INT32_MAX));
}

void read_logit_bias(FieldReader& reader, int vocabulary, model::SamplingParams* sampling) {
  const Json* bias = reader.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) return reader.fail("logit_bias", "'logit_bias' must be an object of token id: bias");
  if (bias->size() > kMaxLogitBiases) {
    return reader.fail("logit_bias", fmt::format("'logit_bias' may hold at most {} token ids", kMaxLogitBiases));
  }
  for (const auto& [key, value] : bias->items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    // Another spelling ("01", "-0") could give one token two biases.
    const bool canonical = error == std::errc{} && end == key.data() + key.size() && fmt::to_string(id) == key;
    if (!canonical || id < 0 || id >= vocabulary) {
      return reader.fail("logit_bias", fmt::format("the keys of 'logit_bias' must be token ids from 0 to {}, not \"{}\"",
                                                   vocabulary - 1, key.substr(0, 64)));
    }
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100.0)) {
      return reader.fail("logit_bias", fmt::format("the bias of token {} must be a number from -100 to 100", id));
    }
    sampling->logit_bias.emplace_back(id, value.get<float>());
  }
}

void read_sampling(FieldReader& reader, int vocabulary, model::SamplingParams* sampling) {
  const auto read = [&](const char* name, double min, double max, float* field) {
    if (const auto value = reader.number(name, min, max)) *field = static_cast<float>(*value);
  };
  read("temperature", 0, 2, &sampling->temperature);
  read("top_p", 0, 1, &sampling->top_p);
  if (!(sampling->top_p > 0)) reader.fail("top_p", "'top_p' must be above 0 and at most 1");
  read("min_p", 0, 1, &sampling->min_p);
  read("repetition_penalty", 0, 1e6, &sampling->repetition_penalty);
  if (!(sampling->repetition_penalty > 0)) reader.fail("repetition_penalty", "'repetition_penalty' must be above 0");
  read("frequency_penalty", -2, 2, &sampling->frequency_penalty);
  read("presence_penalty", -2, 2, &sampling->presence_penalty);
  // −1 is how some clients spell "off".
  if (const auto top_k = reader.integer("top_k", -1, kAnyMax)) sampling->top_k = std::max(0, clamp_to_int(*top_k));
  if (const auto tokens = reader.integer("min_tokens", 0, kAnyMax)) sampling->min_tokens = clamp_to_int(*tokens);
  if (const auto seed = reader.integer("seed", std::numeric_limits<std::int64_t>::min(), kAnyMax)) {
    sampling->seed = static_cast<std::uint64_t>(*seed);
  }
  read_logit_bias(reader, vocabulary, sampling);
}

void read_stop(FieldReader& reader, std::vector<std::string>* stop) {
  const Json* value = reader.find("stop");
  if (value == nullptr) return;
  const Json one = value->is_string() ? Json::array({*value}) : Json();
  const Json& list = value->is_string() ? one : *value;
  if (!list.is_array()) return reader.fail("stop", "'stop' must be a string or an array of strings");
  if (list.size() > kMaxStopStrings) return reader.fail("stop", fmt::format("'stop' may hold at most {} strings", kMaxStopStrings));
  std::size_t total_bytes = 0;
  for (const Json& item : list) {
    if (!item.is_string()) return reader.fail("stop", fmt::format("'stop' must hold strings, not {}", json_kind(item)));
    auto text = item.get<std::string>();
    if (text.empty()) return reader.fail("stop", "a stop string must not be empty");
    if (text.size() > kMaxStopBytes) {
      return reader.fail("stop", fmt::format("a stop string may have at most {} bytes", kMaxStopBytes));
    }
    total_bytes += text.size();
    stop->push_back(std::move(text));
  }
  if (total_bytes > kMaxTotalStopBytes) {
    reader.fail("stop", fmt::format("the stop strings together may have at most {} bytes", kMaxTotalStopBytes));
  }
}

void read_stop_token_ids(FieldReader& reader, int vocabulary, std::vector<std::int32_t>* ids) {
  *ids = reader.token_ids("stop_token_ids", vocabulary);
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  if (ids->size() > kMaxStopTokenIds) {
    reader.fail("stop_token_ids", fmt::format("'stop_token_ids' may hold at most {} different ids", kMaxStopTokenIds));
  }
}

void read_stream(FieldReader& reader, GenerationOptions* options) {
  options->stream = reader.boolean("stream").value_or(false);
  const Json* stream_options = reader.find("stream_options");
  if (stream_options == nullptr) return;
  if (!options->stream) return reader.fail("stream_options", "'stream_options' is only allowed when 'stream' is true");
  if (!stream_options->is_object()) return reader.fail("stream_options", "'stream_options' must be an object");
  FieldReader inner(*stream_options);
  options->include_usage = inner.boolean("include_usage").value_or(false);
  if (inner.error()) reader.fail(field_error("stream_options.include_usage", inner.error()->message));
}

/// Everything but what differs between completions and chat (the prompt, max_tokens, logprobs).
void read_options(FieldReader& reader, const RequestLimits& limits, GenerationOptions* options) {
  options->model = reader.string("model").value_or(limits.model_names.front());
  read_sampling(reader, limits.vocabulary, &options->sampling);
  read_stop(reader, &options->stop);
  read_stream(reader, options);
  read_stop_token_ids(reader, limits.vocabulary, &options->stop_token_ids);
  options->include_stop_text = reader.boolean("include_stop_str_in_output").value_or(false);
  options->ignore_eos = reader.boolean("ignore_eos").value_or(false);
  options->lynx = read_lynx_options(reader, options->stream);
  if (const auto n = reader.integer("n", 1, kMaxChoices)) options->choices = static_cast<int>(*n);
  if (const auto best_of = reader.integer("best_of", 1, kMaxChoices); best_of && *best_of != options->choices) {
    reader.fail("best_of", "'best_of' other than 'n' is not supported");
  }
}

void check_min_tokens(FieldReader& reader, const GenerationOptions& options) {
  if (options.max_tokens && options.sampling.min_tokens > *options.max_tokens) {
    reader.fail("min_tokens", fmt::format("'min_tokens' ({}) must not be above the maximum of {} tokens",
                                          options.sampling.min_tokens, *options.max_tokens));
  }
}

/// Every prompt is a request of its own to the engine, with its own copy of the options' lists.
std::optional<ApiError> check_prompt_count(std::size_t prompts, const GenerationOptions& options) {
  if (prompts * static_cast<std::size_t>(options.choices) > kMaxTotalChoices) {
    return field_error("n", fmt::format("prompts times 'n' may be at most {}", kMaxTotalChoices));
  }
  std::size_t kept = options.stop_token_ids.size() + options.sampling.logit_bias.size();
  for (const std::string& stop : options.stop) kept += stop.size();
  if (prompts * kept > kMaxPromptOptions) {
    return field_error("prompt", fmt::format("prompts times the entries of 'stop_token_ids' and 'logit_bias' and the bytes of "
                                             "'stop' may be at most {}; send fewer prompts in one request",
                                             kMaxPromptOptions));
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> check_model(const Json& body, const RequestLimits& limits) {
  FieldReader reader(body);
  const auto model = reader.string("model");
  if (reader.error()) return reader.error();
  if (!model || std::find(limits.model_names.begin(), limits.model_names.end(), *model) != limits.model_names.end()) return {};
  ApiError error = plain_error(
      404, fmt::format("the model '{}' does not exist; this server has '{}'", model->substr(0, 256), limits.model_names.front()));
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiResult<CompletionRequest> parse_completion_request(const Json& body, const RequestLimits& limits) {
  if (auto error = check_model(body, limits)) return *error;
  if (auto error = refuse_unsupported_completion(body)) return *error;
  CompletionRequest request;
  FieldReader reader(body);
  read_options(reader, limits, &request.options);
  request.echo = reader.boolean("echo").value_or(false);
  request.add_special_tokens = reader.boolean("add_special_tokens").value_or(true);
  const int least = request.echo ? 0 : 1;
  request.options.max_tokens = clamp_to_int(reader.integer("max_tokens", least, kAnyMax).value_or(16));
  if (const auto logprobs = reader.integer("logprobs", 0, kMaxTopLogprobs)) {
    request.options.top_logprobs = static_cast<int>(*logprobs);
  }
  check_min_tokens(reader, request.options);
  if (reader.error()) return *reader.error();
  auto prompts = parse_prompts(body, limits);
  if (!prompts.ok()) return prompts.error();
  request.prompts = std::move(prompts.value());
  if (auto error = check_prompt_count(request.prompts.size(), request.options)) return *error;
  return request;
}

ApiResult<ChatRequest> parse_chat_request(const Json& body, const RequestLimits& limits) {
  if (auto error = check_model(body, limits)) return *error;
  if (auto error = refuse_unsupported_chat(body)) return *error;
  ChatRequest request;
  GenerationOptions& options = request.options;
  FieldReader reader(body);
  read_options(reader, limits, &options);
  // Both are checked, whichever is used.
  const auto old_name = reader.integer("max_tokens", 1, kAnyMax);
  const auto new_name = reader.integer("max_completion_tokens", 1, kAnyMax);
  if (old_name || new_name) options.max_tokens = clamp_to_int(new_name ? *new_name : *old_name);
  const bool logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (logprobs) options.top_logprobs = static_cast<int>(top.value_or(0));
  if (top && !logprobs) reader.fail("top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
  check_min_tokens(reader, options);
  if (reader.error()) return *reader.error();
  auto prompt = parse_chat_prompt(body);
  if (!prompt.ok()) return prompt.error();
  request.prompt = std::move(prompt.value());
  return request;
}

}  // namespace lynx::server
