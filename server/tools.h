#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace lynx::server {

// What the `lynx` command prints. Errors name the model file.

/// Shape, tensor types, and memory of weights and of a token's KV.
Result<std::string> inspect_model(const std::string& model);

/// One token a line: id and its text, quoted as JSON.
Result<std::string> tokenize_text(const std::string& model, std::string_view text);

/// The model's chat template over `messages` (a JSON array), as /v1/chat/completions would render it.
Result<std::string> render_messages(const std::string& model, std::string_view messages);

}  // namespace lynx::server
