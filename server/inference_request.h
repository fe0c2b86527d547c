#pragma once

// Requests of lynx.v1.Inference → what the HTTP front makes of the same words. Pure, and without gRPC: only messages.

#include <string>

#include "proto/lynx/v1/inference.pb.h"
#include "server/generation_plan.h"
#include "server/openai_error.h"
#include "server/serving_backend.h"

namespace lynx::server {

/// Errors name the field as the schema does: "chat.messages[1].role". Tokenizing takes its time: not for an I/O thread.
ApiResult<GenerationPlan> plan_generate(const v1::GenerateRequest& request, const ServingBackend& backend,
                                        const std::string& request_id);
ApiResult<EncodedPrompt> encode_for_tokenize(const v1::TokenizeRequest& request, const ServingBackend& backend);

/// Text of tokens; broken UTF-8 becomes U+FFFD.
ApiResult<std::string> detokenize(const v1::DetokenizeRequest& request, const ServingBackend& backend);

}  // namespace lynx::server
