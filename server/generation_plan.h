#pragma once

// Request bodies → validated generations: where the HTTP and the gRPC front come together.

#include <string>
#include <vector>

#include "server/engine.h"
#include "server/openai_json.h"
#include "server/openai_prompt.h"
#include "server/openai_response.h"
#include "server/serving_backend.h"

namespace lynx::server {

/// A validated generation, ready to run: one engine request a prompt, joined in one response.
struct GenerationPlan {
  ResponseHead head;
  std::vector<GenerateRequest> requests;
  std::vector<EncodedPrompt> prompts;  ///< For echo; tokens are no longer there.
  bool echo = false;
  bool with_logprobs = false;
  bool stream = false;
  bool include_usage = false;
  int choices_per_prompt = 1;
};

/// Plans of a completions and of a chat body. Tokenizing takes its time: not for an I/O thread.
ApiResult<GenerationPlan> plan_completion(const Json& body, const ServingBackend& backend, const std::string& request_id);
ApiResult<GenerationPlan> plan_chat(const Json& body, const ServingBackend& backend, const std::string& request_id);

/// /tokenize: the `prompt` as completions or, with `messages`, chat would see it. An empty prompt has no tokens.
ApiResult<EncodedPrompt> encode_for_tokenize(const Json& body, const ServingBackend& backend);

}  // namespace lynx::server
