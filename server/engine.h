#pragma once

// The seam between the fronts (HTTP, later gRPC) and what generates. Fronts validate and submit; the engine calls a sink back from
// its own thread. --aggregated implements it with one process; the pair implements the same interface.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/sampler.h"
#include "model/sampling_params.h"
#include "server/transfer_mode.h"

namespace lynx::server {

struct GenerateRequest {
  std::string request_id;            ///< Unique among live requests; in every log line.
  std::vector<std::int32_t> prompt;  ///< Not empty; ids inside the vocabulary; shorter than the context.
  model::SamplingParams sampling;
  int max_tokens = 16;  ///< Per choice; 0 only with prompt_logprobs. Clamped to the context by the engine.
  /// max_tokens is the rest of the context, no number of the client's: lowered to what the KV memory holds for all choices.
  bool fit_max_tokens = false;
  int choices = 1;  ///< n: one prefill, then copy-on-write.
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  bool include_stop_text = false;  ///< include_stop_str_in_output
  bool ignore_eos = false;
  int top_logprobs = -1;                 ///< −1 = no logprobs; else the chosen token's and this many alternatives.
  int prompt_top_logprobs = -1;          ///< Same for the prompt's tokens (echo with logprobs).
  std::optional<TransferMode> transfer;  ///< nullopt: the node's default. Without a transfer it says which view is decoded on.
  std::optional<GapMode> gap;            ///< nullopt: the node's default.
  bool provisional = false;              ///< Drafts are shown as they come.
  bool receipt = false;                  ///< The last update says how the answer came about.
};

/// One token with its log probability and alternatives (empty unless asked for).
struct TokenOutput {
  std::int32_t id = 0;
  float logprob = 0;
  std::vector<model::TokenLogprob> top;
};

enum class FinishReason { kStop, kLength };

/// How an answer came about. Seconds since the request was submitted; −1: that point was not reached.
struct Receipt {
  std::optional<TransferMode> transfer;  ///< nullopt: the prompt was computed here.
  FullView verified = FullView::kExact;  ///< What every token but the first was chosen on; that one is chosen on exact values.
  GapMode gap = GapMode::kWait;
  int drafted = 0;
  int accepted = 0;
  int rolled_back = 0;
  std::uint64_t first_bytes = 0;  ///< Of the cache's first step: Anchors, or all of it. Of all transfers that arrived whole.
  std::uint64_t residual_bytes = 0;
  double first_token_s = -1;
  double anchors_s = -1;   ///< All Anchors were there.
  double cache_s = -1;     ///< The whole cache was there.
  double verified_s = -1;  ///< All drafts were held against it.
  double second_token_s = -1;
};

/// Drafts behind a choice's committed tokens.
struct Provisional {
  std::vector<std::int32_t> tokens;
  std::string text;  ///< UTF-8; what is incomplete is replaced.
};

/// What became final for one choice. Text is complete UTF-8 whose stop strings are already cut; `tokens` are those whose text has
/// been released (a token is held back with its text). Deltas concatenate to exactly the unary text.
struct ChoiceUpdate {
  int choice = 0;
  std::string text;
  std::vector<TokenOutput> tokens;
  std::vector<std::int32_t> text_offsets;  ///< Per token: where its text begins in the choice's whole text, in Unicode code points.
  std::optional<FinishReason> finish;
  /// Drafts behind the committed tokens, all there are now: they may still turn out otherwise. Only where they were asked for.
  std::optional<Provisional> provisional{};
};

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;  ///< Over all choices; a final end token counts.
  int cached_tokens = 0;
};

/// One call of the sink: in order, never after `finished`.
struct GenerationUpdate {
  std::vector<TokenOutput> prompt_tokens;  ///< In the first update when prompt_top_logprobs ≥ 0; [0] has no logprob.
  std::vector<ChoiceUpdate> choices;
  Usage usage;
  std::optional<Receipt> receipt{};  ///< In the last update, if it was asked for and the request did not fail.
  bool finished = false;             ///< All choices ended, or `error` is set; resources are released.
  Status error;                      ///< Not OK: the request failed; `finished` is true.
};

/// Called on the engine's thread; must not block and must not call the engine back except cancel().
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual void on_update(GenerationUpdate update) = 0;
};

/// A snapshot for /metrics and /health.
struct EngineStats {
  int waiting = 0;  ///< Requests queued or preempted.
  int running = 0;  ///< Requests.
  int free_blocks = 0;
  int total_blocks = 0;
  std::uint64_t prompt_tokens_total = 0;
  std::uint64_t generation_tokens_total = 0;
  std::uint64_t preemptions_total = 0;
  std::uint64_t drafted_tokens_total = 0;   ///< And held against the complete cache.
  std::uint64_t accepted_tokens_total = 0;  ///< Of these.
  double draft_acceptance = 0;              ///< Estimated chance that a draft behind right ones is right.
  bool draining = false;
};

/// How a request ended and where its time went. Durations are seconds; −1 = that point was not reached.
struct RequestReport {
  std::string_view request_id;         ///< Valid during the call.
  Status error;                        ///< OK; CANCELLED: the client went away; else the failure.
  std::optional<FinishReason> finish;  ///< kLength if any choice was cut; nothing on error.
  Usage usage;
  int preemptions = 0;
  Receipt receipt;
  double queue_s = -1;    ///< Submitted → first admitted.
  double prefill_s = -1;  ///< First admitted → first token (or the prompt's scores).
  double ttft_s = -1;     ///< Submitted → first token.
  double decode_s = -1;   ///< First token → end.
  double total_s = 0;     ///< Submitted → end.
};

/// What the engine has to tell to metrics. Called on the engine's thread; must not block.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void on_first_token(double ttft_s) = 0;         ///< Once a request, over all its choices.
  virtual void on_next_token(double since_last_s) = 0;    ///< Every later token of a choice.
  virtual void on_pass(int rows, double seconds) = 0;     ///< One forward pass, sampling not counted.
  virtual void on_request_end(const RequestReport&) = 0;  ///< Once for every accepted request.
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Any thread. OK: the sink will be called, the last time with `finished`. RESOURCE_EXHAUSTED: it could never fit (the message
  /// names the capacity); UNAVAILABLE: the queue is full or the engine is draining. After an error the sink is never called.
  virtual Status submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) = 0;

  /// Any thread; idempotent; unknown ids are ignored. The sink gets a last update with CANCELLED.
  virtual void cancel(std::string_view request_id) = 0;

  /// Refuses new requests from now on and returns at once; running ones go on.
  virtual void begin_drain() = 0;

  virtual EngineStats stats() const = 0;  ///< Any thread.
  virtual int max_model_len() const = 0;
};

}  // namespace lynx::server
