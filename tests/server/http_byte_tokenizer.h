#pragma once

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lynx::server::testing {

inline constexpr std::int32_t kTurnToken = 256;  ///< "<|turn|>", control
inline constexpr std::int32_t kEndToken = 257;   ///< "<|end|>", control, eos

/// A token a byte (id = byte), then the two control tokens.
text::Tokenizer byte_tokenizer(bool add_bos = false);

/// "<|turn|>role:content<|end|>" a message; raises on the content "raise".
text::ChatTemplate simple_chat_template();

}  // namespace lynx::server::testing
