#include "server/pair_messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "transport/wire_header.h"

namespace lynx::server {
namespace {

constexpr int kMostTopLogprobs = 1024;
constexpr std::size_t kMostErrorBytes = 1024;  // It goes on to a client, and into the log.
constexpr std::size_t kMostErrorCodeBytes = 32;
constexpr int kMostChoices = 1024;  // Each costs memory before anybody asks whether all can run at once.
constexpr std::array kCodes{Code::kOk,
                            Code::kInvalidArgument,
                            Code::kNotFound,
                            Code::kUnauthenticated,
                            Code::kResourceExhausted,
                            Code::kFailedPrecondition,
                            Code::kUnimplemented,
                            Code::kUnavailable,
                            Code::kDeadlineExceeded,
                            Code::kCancelled,
                            Code::kDataLoss,
                            Code::kInternal};

/// At most so many bytes, and no half character.
std::string first_bytes(const std::string& utf8, std::size_t most) {
  if (utf8.size() <= most) return utf8;
  while (most > 0 && (static_cast<unsigned char>(utf8[most]) & 0xc0) == 0x80) --most;
  return utf8.substr(0, most);
}

void put_token(const TokenOutput& token, v1::ScoredToken* out) {
  out->set_id(token.id);
  out->set_logprob(token.logprob);
  for (const model::TokenLogprob& other : token.top) {
    out->add_top_ids(other.token);
    out->add_top_logprobs(other.logprob);
  }
}

Status take_token(const v1::ScoredToken& token, int most_top, int vocabulary, std::vector<TokenOutput>* out) {
  const auto known = [vocabulary](std::int32_t id) { return id >= 0 && id < vocabulary; };
  if (!known(token.id())) return internal_error(fmt::format("token id {} is outside of the vocabulary", token.id()));
  if (token.top_ids_size() != token.top_logprobs_size() || token.top_ids_size() > std::max(most_top, 0)) {
    return internal_error(fmt::format("token {} has {} alternatives", token.id(), token.top_ids_size()));
  }
  TokenOutput output{.id = token.id(), .logprob = token.logprob(), .top = {}};
  for (int i = 0; i < token.top_ids_size(); ++i) {
    if (!known(token.top_ids(i))) return internal_error(fmt::format("token id {} is outside of the vocabulary", token.top_ids(i)));
    output.top.push_back({token.top_ids(i), token.top_logprobs(i)});
  }
  out->push_back(std::move(output));
  return {};
}

void put_sampling(const model::SamplingParams& params, v1::Sampling* out) {
  out->set_temperature(params.temperature);
  out->set_top_k(params.top_k);
  out->set_top_p(params.top_p);
  out->set_min_p(params.min_p);
  out->set_repetition_penalty(params.repetition_penalty);
  out->set_frequency_penalty(params.frequency_penalty);
  out->set_presence_penalty(params.presence_penalty);
  for (const auto& [id, bias] : params.logit_bias) {
    v1::TokenBias* const entry = out->add_logit_bias();
    entry->set_id(id);
    entry->set_bias(bias);
  }
  out->set_min_tokens(params.min_tokens);
  out->set_seed(*params.seed);
}

Result<model::SamplingParams> sampling_of(const v1::Sampling& in) {
  const auto within = [](float value, float low, float high) { return value >= low && value <= high; };  // False for NaN.
  if (!within(in.temperature(), 0, 100)) return invalid_argument("sampling.temperature");
  if (in.top_k() < 0) return invalid_argument("sampling.top_k");
  if (!within(in.top_p(), 0, 1)) return invalid_argument("sampling.top_p");
  if (!within(in.min_p(), 0, 1)) return invalid_argument("sampling.min_p");
  if (!within(in.repetition_penalty(), 1e-6F, 1e6F)) return invalid_argument("sampling.repetition_penalty");
  if (!within(in.frequency_penalty(), -1e3F, 1e3F)) return invalid_argument("sampling.frequency_penalty");
  if (!within(in.presence_penalty(), -1e3F, 1e3F)) return invalid_argument("sampling.presence_penalty");
  if (in.min_tokens() < 0) return invalid_argument("sampling.min_tokens");
  model::SamplingParams params{.temperature = in.temperature(),
                               .top_k = in.top_k(),
                               .top_p = in.top_p(),
                               .min_p = in.min_p(),
                               .repetition_penalty = in.repetition_penalty(),
                               .frequency_penalty = in.frequency_penalty(),
                               .presence_penalty = in.presence_penalty(),
                               .logit_bias = {},
                               .min_tokens = in.min_tokens(),
                               .seed = in.seed()};
  for (const v1::TokenBias& entry : in.logit_bias()) {
    if (!std::isfinite(entry.bias())) return invalid_argument("sampling.logit_bias");
    params.logit_bias.emplace_back(entry.id(), entry.bias());
  }
  return params;
}

}  // namespace

v1::Ticket make_ticket(const Generation& generation) {
  const GenerateRequest& request = generation.request;
  v1::Ticket ticket;
  ticket.set_request_id(request.request_id);
  ticket.set_cache(request.max_tokens > 1);
  ticket.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  ticket.set_choices(request.choices);
  ticket.set_sample(request.max_tokens > 0);
  put_sampling(request.sampling, ticket.mutable_sampling());
  ticket.mutable_stop_token_ids()->Assign(request.stop_token_ids.begin(), request.stop_token_ids.end());
  ticket.set_ignore_eos(request.ignore_eos);
  ticket.set_top_logprobs(request.top_logprobs);
  // Scores that were given before a preemption are not computed again.
  const bool scored = generation.prompt_reported || generation.prompt_scores.size() > 1;
  ticket.set_prompt_top_logprobs(scored ? -1 : request.prompt_top_logprobs);
  return ticket;
}

Status check_ticket_secret(const std::string& secret) {
  constexpr std::size_t kBytes = sizeof(transport::TicketSecret);
  return secret.size() == kBytes ? Status() : invalid_argument(fmt::format("secret must be of {} bytes", kBytes));
}

Result<GenerateRequest> request_of(const v1::Ticket& ticket) {
  LYNX_RETURN_IF_ERROR(check_ticket_secret(ticket.secret()));
  if (ticket.top_logprobs() < -1 || ticket.top_logprobs() > kMostTopLogprobs) return invalid_argument("top_logprobs");
  if (ticket.prompt_top_logprobs() < -1 || ticket.prompt_top_logprobs() > kMostTopLogprobs) {
    return invalid_argument("prompt_top_logprobs");
  }
  if (ticket.choices() < 1 || ticket.choices() > kMostChoices) return invalid_argument("choices");
  LYNX_TRY(auto sampling, sampling_of(ticket.sampling()));
  const auto mode = parse_transfer_mode(ticket.transfer());
  if (!mode) return invalid_argument("transfer: unknown mode " + ticket.transfer().substr(0, 32));
  GenerateRequest request;
  request.prompt.assign(ticket.prompt().begin(), ticket.prompt().end());
  request.sampling = std::move(sampling);
  request.max_tokens = ticket.sample() ? 1 : 0;
  request.choices = ticket.choices();
  request.stop_token_ids.assign(ticket.stop_token_ids().begin(), ticket.stop_token_ids().end());
  request.include_stop_text = true;  // Else an end token would not be told.
  request.ignore_eos = ticket.ignore_eos();
  request.top_logprobs = ticket.top_logprobs();
  request.prompt_top_logprobs = ticket.prompt_top_logprobs();
  request.transfer = mode;
  return request;
}

v1::FirstTokens make_first_tokens(std::uint64_t number, const GenerationUpdate& update) {
  v1::FirstTokens message;
  message.set_number(number);
  std::vector<const TokenOutput*> tokens(update.choices.size());
  for (const ChoiceUpdate& choice : update.choices) {
    if (!choice.tokens.empty()) tokens[static_cast<std::size_t>(choice.choice)] = &choice.tokens.front();
  }
  for (const TokenOutput* token : tokens) {
    if (token != nullptr) put_token(*token, message.add_tokens());
  }
  for (std::size_t i = 1; i < update.prompt_tokens.size(); ++i) put_token(update.prompt_tokens[i], message.add_prompt_scores());
  return message;
}

Result<FirstOutputs> outputs_of(const v1::FirstTokens& message, const v1::Ticket& ticket, int vocabulary) {
  if (message.tokens_size() != (ticket.sample() ? ticket.choices() : 0)) {
    return internal_error(fmt::format("first tokens: {} for {} choices", message.tokens_size(), ticket.choices()));
  }
  if (message.prompt_scores_size() != (ticket.prompt_top_logprobs() >= 0 ? ticket.prompt_size() - 1 : 0)) {
    return internal_error(fmt::format("prompt scores: {} for {} tokens", message.prompt_scores_size(), ticket.prompt_size()));
  }
  FirstOutputs outputs;
  for (const v1::ScoredToken& token : message.tokens()) {
    LYNX_RETURN_IF_ERROR(take_token(token, ticket.top_logprobs(), vocabulary, &outputs.tokens));
  }
  for (const v1::ScoredToken& token : message.prompt_scores()) {
    LYNX_RETURN_IF_ERROR(take_token(token, ticket.prompt_top_logprobs(), vocabulary, &outputs.prompt_scores));
  }
  return outputs;
}

v1::TicketError make_error(std::uint64_t number, const Status& why) {
  v1::TicketError error;
  error.set_number(number);
  error.set_code(std::string(code_name(why.code())));
  error.set_message(why.message());
  return error;
}

Status status_of(const v1::TicketError& error) {
  const std::string message = first_bytes(error.message(), kMostErrorBytes);
  for (const Code code : kCodes) {
    if (code != Code::kOk && error.code() == code_name(code)) return {code, message};
  }
  return internal_error(fmt::format("{} ({})", message, first_bytes(error.code(), kMostErrorCodeBytes)));
}

}  // namespace lynx::server
