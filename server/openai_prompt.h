#pragma once

// Prompts → tokens, and typed requests → what the engine takes. Pure apart from the seed that is drawn when a request has none.

#include <cstdint>
#include <string>
#include <vector>

#include "server/engine.h"
#include "server/openai_error.h"
#include "server/openai_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lynx::server {

/// What turns text into tokens; nothing is owned, all of it may be used from any thread.
struct TextTools {
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;  ///< Null: the model has none, and chat is refused.
};

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;
  std::string text;           ///< As the client wrote it, or decoded from its tokens: what echo repeats.
  int hidden_bos_tokens = 0;  ///< Leading tokens that are not part of `text`.
};

/// Tokens of one completions prompt; 400 when there are none. `path` names the prompt in errors.
ApiResult<EncodedPrompt> encode_prompt(const PromptInput& input, bool add_special_tokens, const TextTools& tools,
                                       const std::string& path);

/// Renders the chat template and tokenizes the result; special tokens that the template writes out become tokens.
ApiResult<EncodedPrompt> encode_chat(const ChatPrompt& prompt, const TextTools& tools);

/// The engine's request. 400 context_length_exceeded with both numbers, about the field `path`, when the prompt leaves no room for
/// what is to be generated; a maximum beyond the context is clamped, and absent means all of the rest (either way the engine may
/// lower it). An absent seed is drawn here.
ApiResult<GenerateRequest> make_generate_request(const GenerationOptions& options, std::vector<std::int32_t> tokens,
                                                 std::string request_id, int max_model_len, const std::string& path);

}  // namespace lynx::server
