#pragma once

// What the engine produced → messages of lynx.v1.Inference. Pure, and without gRPC: only messages.

#include <string>
#include <vector>

#include "proto/lynx/v1/inference.pb.h"
#include "server/generation_plan.h"
#include "server/openai_response.h"
#include "text/tokenizer.h"

namespace lynx::server {

/// One delta, drafts included. Logprobs, pieces and offsets only with `with_logprobs`.
void fill_choice(const ChoicePart& part, bool with_logprobs, const text::Tokenizer& tokenizer, v1::ChoiceDelta* out);
void fill_usage(const Usage& usage, v1::Usage* out);
void fill_receipt(const Receipt& receipt, v1::Receipt* out);

/// The schema's value for a mode.
v1::Transfer transfer_value(TransferMode mode);

/// An echoed prompt as deltas of every choice of the plan, in messages that are well below the 4 MiB that clients take by default.
/// `tokens`: the prompt's, with scores; used if the plan asks for log probabilities.
std::vector<v1::GenerateResponse> echo_messages(const GenerationPlan& plan, const std::vector<TokenOutput>& tokens,
                                                const text::Tokenizer& tokenizer);

/// `text` with U+FFFD for every broken sequence, as strings of protobuf must be.
std::string valid_utf8(std::string text);

}  // namespace lynx::server
