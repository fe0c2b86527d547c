#pragma once

// What the engine produced → bodies and stream events of the OpenAI surface. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/engine.h"
#include "server/openai_json.h"
#include "text/tokenizer.h"

namespace lynx::server {

/// The same in every event of one response.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;  ///< Unix seconds.
  std::string model;
  bool chat = false;
};

/// A choice, or the part of it that one event carries.
struct ChoicePart {
  int index = 0;
  std::string text{};
  std::vector<TokenOutput> tokens{};
  std::vector<std::int32_t> text_offsets{};  ///< Completions; one per token.
  std::optional<FinishReason> finish{};
  int unscored_tokens = 0;                   ///< Leading tokens without a log probability: the first of an echoed prompt.
  std::optional<Provisional> provisional{};  ///< Streams only: all drafts behind the choice, this part being added.

  void append(ChoicePart part);
};

/// Whole answers. `with_logprobs`: the request asked for them.
Json unary_body(const ResponseHead& head, const std::vector<ChoicePart>& choices, const Usage& usage, bool with_logprobs,
                const text::Tokenizer& tokenizer);

/// One server-sent event: "data: {…}\n\n".
std::string sse_event(const Json& json);
inline constexpr const char* kSseDone = "data: [DONE]\n\n";
inline constexpr const char* kSsePing = ": ping\n\n";

/// Chat: the first chunk of a choice, with the role.
Json role_chunk(const ResponseHead& head, int index);
/// Text, logprobs, drafts and finish reason of one choice; a chunk that finishes a chat choice has an empty delta.
Json delta_chunk(const ResponseHead& head, const ChoicePart& part, bool with_logprobs, const text::Tokenizer& tokenizer);
Json usage_chunk(const ResponseHead& head, const Usage& usage);
/// A chunk of no choice, as usage_chunk() is.
Json empty_chunk(const ResponseHead& head);

/// The value of `lynx` in an answer whose prompts have these receipts: "receipt" for one, "receipts" for more.
Json lynx_receipts(const std::vector<Receipt>& receipts);

/// What is shown of a log probability: −inf, NaN and all below −9999 become −9999, since JSON has no infinities.
float finite_logprob(float value);

/// Logprobs in the two shapes.
Json chat_logprobs(std::span<const TokenOutput> tokens, const text::Tokenizer& tokenizer);
Json completion_logprobs(const ChoicePart& part, const text::Tokenizer& tokenizer);

/// The prompt's tokens as the beginning of an echoed choice: text, scores and offsets. `hidden` leading tokens are not in `text`.
ChoicePart echo_part(const std::string& text, const std::vector<TokenOutput>& tokens, int hidden, const text::Tokenizer& tokenizer);

/// Unicode code points of UTF-8 text (broken bytes count as they come).
std::int32_t count_code_points(std::string_view text);

}  // namespace lynx::server
