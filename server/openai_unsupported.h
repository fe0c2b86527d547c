#pragma once

#include <optional>

#include "server/openai_error.h"
#include "server/openai_json.h"

namespace lynx::server {

/// Features of OpenAI's and vLLM's surface that would change the answer and do not exist here: refused by name rather than ignored.
/// Values that ask for nothing (false, null, "text"…) pass. Also refuses unknown keys of the `lynx` object.
std::optional<ApiError> refuse_unsupported_completion(const Json& body);
std::optional<ApiError> refuse_unsupported_chat(const Json& body);

}  // namespace lynx::server
