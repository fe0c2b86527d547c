#include "server/generation.h"

#include <algorithm>
#include <random>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "text/utf8_assembler.h"

namespace lynx::server {
namespace {

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Status validate(const GenerateRequest& request, int vocabulary, int max_model_len) {
  if (request.prompt.empty()) return invalid_argument("prompt has no tokens");
  const auto in_vocabulary = [&](std::int32_t id) { return id >= 0 && id < vocabulary; };
  if (!std::all_of(request.prompt.begin(), request.prompt.end(), in_vocabulary)) {
    return invalid_argument(fmt::format("prompt has a token id outside of 0 … {}", vocabulary - 1));
  }
  if (!std::all_of(request.stop_token_ids.begin(), request.stop_token_ids.end(), in_vocabulary)) {
    return invalid_argument(fmt::format("stop_token_ids has an id outside of 0 … {}", vocabulary - 1));
  }
  const auto& bias = request.sampling.logit_bias;
  if (!std::all_of(bias.begin(), bias.end(), [&](const auto& entry) { return in_vocabulary(entry.first); })) {
    return invalid_argument(fmt::format("logit_bias has a token id outside of 0 … {}", vocabulary - 1));
  }
  const int spare = request.max_tokens > 0 ? 1 : 0;
  if (request.prompt.size() > static_cast<std::size_t>(max_model_len - spare)) {
    return invalid_argument(fmt::format("prompt has {} tokens, the context {}", request.prompt.size(), max_model_len));
  }
  if (request.choices < 1) return invalid_argument("n must be at least 1");
  if (request.max_tokens < 0) return invalid_argument("max_tokens is negative");
  if (request.max_tokens == 0 && request.prompt_top_logprobs < 0)
    return invalid_argument("max_tokens is 0 and nothing else is asked for");
  return {};
}

std::uint64_t draw_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Result<std::unique_ptr<Generation>> make_generation(GenerateRequest request, std::shared_ptr<UpdateSink> sink,
                                                    const std::vector<std::int32_t>& model_end_tokens, int vocabulary,
                                                    int max_model_len, kv::BlockPool* pool) {
  LYNX_RETURN_IF_ERROR(validate(request, vocabulary, max_model_len));
  std::shared_ptr<const text::StopStrings> stops;
  if (!request.stop.empty()) {
    LYNX_TRY(stops, text::StopStrings::create(request.stop));
  }
  auto generation = std::make_unique<Generation>();
  request.max_tokens = std::min(request.max_tokens, max_model_len - static_cast<int>(request.prompt.size()));
  if (!request.sampling.seed) request.sampling.seed = draw_seed();
  if (!request.ignore_eos) generation->end_tokens = model_end_tokens;
  auto& ends = generation->end_tokens;
  ends.insert(ends.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  // Looked at for every token: a client's long list must not cost more than the vocabulary.
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (int choice = 0; choice < request.choices; ++choice) {
    generation->choices.push_back({.tokens = {},
                                   .blocks = kv::BlockTable(pool),
                                   .output = ChoiceOutput(stops, request.include_stop_text, request.sampling.min_tokens),
                                   .finish = {}});
  }
  if (request.prompt_top_logprobs >= 0) generation->prompt_scores.push_back({.id = request.prompt[0], .logprob = 0, .top = {}});
  generation->request = std::move(request);
  generation->sink = std::move(sink);
  generation->times.submitted = Clock::now();
  return generation;
}

bool Generation::ended() const {
  return std::all_of(choices.begin(), choices.end(), [](const GenerationChoice& c) { return c.finish.has_value(); });
}

Usage Generation::usage() const {
  Usage usage{.prompt_tokens = prompt_tokens()};
  for (const GenerationChoice& choice : choices) usage.completion_tokens += static_cast<int>(choice.tokens.size());
  return usage;
}

std::int32_t Generation::token(int choice, int position) const {
  const auto index = static_cast<std::size_t>(position);
  if (index < request.prompt.size()) return request.prompt[index];
  const GenerationChoice& c = at(choice);
  const std::size_t generated = index - request.prompt.size();
  return generated < c.tokens.size() ? c.tokens[generated] : c.drafts[generated - c.tokens.size()];
}

bool Generation::is_end(std::int32_t token) const {
  return std::binary_search(end_tokens.begin(), end_tokens.end(), token);
}

void Generation::add_token(int choice, TokenOutput token, std::string_view bytes) {
  GenerationChoice& c = at(choice);
  c.tokens.push_back(token.id);
  const bool end = is_end(token.id);
  const bool last = static_cast<int>(c.tokens.size()) >= request.max_tokens;
  // An end token is no part of the text, unless the client asked for what stopped it.
  if (!end || request.include_stop_text) c.output.push(std::move(token), bytes);
  if (end || c.output.stopped()) {
    c.finish_with(FinishReason::kStop);
  } else if (last) {
    c.finish_with(FinishReason::kLength);
  }
}

void Generation::add_draft(int choice, std::int32_t token, std::string_view bytes) {
  GenerationChoice& c = at(choice);
  c.drafts.push_back(token);
  if (!is_end(token) || request.include_stop_text) c.draft_bytes += bytes;
  c.drafts_changed = true;
}

void Generation::keep_drafts(int choice, int count) {
  GenerationChoice& c = at(choice);
  const int given_up = static_cast<int>(c.drafts.size()) - count;
  if (given_up == 0) return;
  c.draft_bytes.clear();  // What is kept is settled before anything is shown again.
  c.drafts_changed = true;
  receipt.drafted += given_up;
  receipt.rolled_back += given_up;
  c.drafts.resize(static_cast<std::size_t>(count));
}

void Generation::settle_drafts(int choice) {
  GenerationChoice& c = at(choice);
  if (c.drafts.empty()) return;
  const int drafted = static_cast<int>(c.drafts.size());
  const int right = std::exchange(c.accepted, 0);
  receipt.drafted += drafted;
  receipt.accepted += right;
  receipt.rolled_back += drafted - right;
  c.drafts.clear();
  c.draft_bytes.clear();
  c.drafts_changed = true;
}

void Generation::settle_verified(int choice, Clock::time_point now) {
  any_verified = any_verified || !at(choice).drafts.empty();
  settle_drafts(choice);
  const bool left = std::any_of(choices.begin(), choices.end(), [](const auto& c) { return !c.finish && !c.drafts.empty(); });
  if (any_verified && !left && !times.verified) times.verified = now;
}

std::optional<GenerationUpdate> Generation::take_update() {
  GenerationUpdate update;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    GenerationChoice& c = choices[i];
    const bool show_drafts = request.provisional && c.drafts_changed;
    if (!c.output.has_update() && !show_drafts) continue;
    update.choices.push_back(c.output.take());
    update.choices.back().choice = static_cast<int>(i);
    if (!show_drafts) continue;
    c.drafts_changed = false;
    text::Utf8Assembler assembler;
    std::string text = assembler.push(c.draft_bytes);
    update.choices.back().provisional = Provisional{c.drafts, text + assembler.finish()};
  }
  if (update.choices.empty()) return std::nullopt;
  if (!std::exchange(prompt_reported, true)) update.prompt_tokens = std::exchange(prompt_scores, {});
  update.usage = usage();
  update.finished = ended();
  if (update.finished && request.receipt) update.receipt = make_receipt();
  return update;
}

Receipt Generation::make_receipt() const {
  Receipt made = receipt;
  if (!times.second_token) made.verified = FullView::kExact;  // First tokens are chosen where the prompt is computed.
  const auto since = [&](const std::optional<Clock::time_point>& at) { return at ? seconds(*at - times.submitted) : -1; };
  made.first_token_s = since(times.first_token);
  made.second_token_s = since(times.second_token);
  made.anchors_s = since(times.anchored);
  made.cache_s = since(times.arrived);
  made.verified_s = since(times.verified);
  return made;
}

RequestReport Generation::report(const Status& error, Clock::time_point now) const {
  RequestReport report;
  report.request_id = request.request_id;
  report.error = error;
  report.usage = usage();
  report.preemptions = preemptions;
  report.receipt = make_receipt();
  if (error.ok()) {
    const bool cut = std::any_of(choices.begin(), choices.end(), [](const auto& c) { return c.finish == FinishReason::kLength; });
    report.finish = cut ? FinishReason::kLength : FinishReason::kStop;
  }
  report.total_s = seconds(now - times.submitted);
  if (!times.admitted) return report;
  report.queue_s = seconds(*times.admitted - times.submitted);
  if (!times.first_token) return report;
  report.prefill_s = seconds(*times.first_token - *times.admitted);
  report.ttft_s = seconds(*times.first_token - times.submitted);
  report.decode_s = seconds(now - *times.first_token);
  return report;
}

void log_request_end(const RequestReport& report) {
  const auto milliseconds = [](double value_s) { return value_s < 0 ? value_s : value_s * 1e3; };
  const Receipt& receipt = report.receipt;
  const std::string_view how =
      report.finish ? (*report.finish == FinishReason::kStop ? "stop" : "length") : code_name(report.error.code());
  log_info("request ended", {{"request_id", report.request_id},
                             {"finish", how},
                             {"prompt_tokens", report.usage.prompt_tokens},
                             {"completion_tokens", report.usage.completion_tokens},
                             {"preemptions", report.preemptions},
                             {"transfer", receipt.transfer ? transfer_mode_name(*receipt.transfer) : "none"},
                             {"verified", full_view_name(receipt.verified)},
                             {"drafted", receipt.drafted},
                             {"accepted", receipt.accepted},
                             {"rolled_back", receipt.rolled_back},
                             {"first_bytes", receipt.first_bytes},
                             {"residual_bytes", receipt.residual_bytes},
                             {"queue_ms", milliseconds(report.queue_s)},
                             {"ttft_ms", milliseconds(report.ttft_s)},
                             {"anchors_ms", milliseconds(receipt.anchors_s)},
                             {"cache_ms", milliseconds(receipt.cache_s)},
                             {"verified_ms", milliseconds(receipt.verified_s)},
                             {"second_token_ms", milliseconds(receipt.second_token_s)},
                             {"total_ms", milliseconds(report.total_s)}});
}

}  // namespace lynx::server
