#pragma once

// Engine requests and their results as control-plane messages. What comes from a peer is untrusted: it has the pair's secret, and
// may still be of another mind.

#include <string_view>
#include <vector>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"
#include "server/engine.h"
#include "server/generation.h"

namespace lynx::server {

/// A ticket for a request's prompt, but for number, secret and transfer.
v1::Ticket make_ticket(const Generation& generation);

/// INVALID_ARGUMENT: not as long as a transport::TicketSecret.
Status check_ticket_secret(const std::string& secret);

/// The request that the prefill node runs for a ticket: at most one token a choice. INVALID_ARGUMENT naming the field.
Result<GenerateRequest> request_of(const v1::Ticket& ticket);

/// What that request gave.
v1::FirstTokens make_first_tokens(std::uint64_t number, const GenerationUpdate& update);

/// The way back. INVALID_ARGUMENT when it does not fit to `ticket`.
struct FirstOutputs {
  std::vector<TokenOutput> tokens;
  std::vector<TokenOutput> prompt_scores;
};
/// What does not fit is the prefill node's fault: an internal error.
Result<FirstOutputs> outputs_of(const v1::FirstTokens& message, const v1::Ticket& ticket, int vocabulary);

v1::TicketError make_error(std::uint64_t number, const Status& why);
Status status_of(const v1::TicketError& error);

}  // namespace lynx::server
