#pragma once

// A live request on the engine's thread: its tokens, its blocks and what was shown of it. What is to be done with it is decided in
// scheduler/; who computes its KV is the engine's business.

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "kv/block_table.h"
#include "quant/plane_profile.h"
#include "scheduler/batcher.h"
#include "server/choice_output.h"
#include "server/engine.h"

namespace lynx::server {

using Clock = std::chrono::steady_clock;

/// One of a request's n answers.
struct GenerationChoice {
  std::vector<std::int32_t> tokens;  ///< Generated ones, an end token included.
  kv::BlockTable blocks;
  ChoiceOutput output;
  std::optional<FinishReason> finish;
  Clock::time_point last_token_at{};
  std::vector<std::int32_t> drafts{};  ///< Behind `tokens`: guesses, not part of the answer.
  std::string draft_bytes{};           ///< Their text.
  bool drafts_changed = false;         ///< Since they were shown last.
  int accepted = 0;                    ///< Of the drafts, by the pass under way.

  void finish_with(FinishReason reason) {
    finish = reason;
    output.finish(reason);
  }
};

/// When a request reached its stations.
struct GenerationTimes {
  Clock::time_point submitted{};
  std::optional<Clock::time_point> admitted;
  std::optional<Clock::time_point> first_token;  ///< Or the prompt's scores, where nothing is generated.
  std::optional<Clock::time_point> second_token;
  std::optional<Clock::time_point> anchored;  ///< The stations of a transfer: the first time, where there were several.
  std::optional<Clock::time_point> arrived;
  std::optional<Clock::time_point> verified;  ///< No drafts are left, and some were held against the cache.
};

struct Generation {
  scheduler::RequestId id = 0;
  GenerateRequest request;  ///< With max_tokens clamped and the seed drawn.
  std::shared_ptr<UpdateSink> sink;
  std::vector<std::int32_t> end_tokens;  ///< End a choice: the model's (not with ignore_eos) and stop_token_ids. Ascending, unique.
  std::vector<GenerationChoice> choices;
  std::vector<TokenOutput> prompt_scores;  ///< As far as computed; [0] has no logprob. Moved out with the first update.
  bool prompt_reported = false;
  bool in_transfer = false;  ///< A PromptTransfer may read or write its prompt's blocks.
  int preemptions = 0;
  bool any_verified = false;  ///< Drafts were held against the cache.
  bool own_numerics = true;   ///< The first tokens were chosen with this node's numerics.
  GenerationTimes times;
  std::shared_ptr<const quant::PlaneProfile> profile;  ///< Of its Anchors, while it drafts; else null.
  Receipt receipt;                                     ///< Counts and bytes; make_receipt() adds the times.

  int prompt_tokens() const { return static_cast<int>(request.prompt.size()); }
  int known_tokens(int choice) const { return prompt_tokens() + static_cast<int>(at(choice).tokens.size()); }
  bool ended() const;
  Usage usage() const;
  bool scores_prompt() const { return request.prompt_top_logprobs >= 0; }

  GenerationChoice& at(int choice) { return choices[static_cast<std::size_t>(choice)]; }
  const GenerationChoice& at(int choice) const { return choices[static_cast<std::size_t>(choice)]; }

  /// The token at a position of a choice's sequence, drafts included.
  std::int32_t token(int choice, int position) const;

  bool is_end(std::int32_t token) const;

  /// Takes the next token of a choice: adds it to its text and finishes the choice where the rules say so.
  void add_token(int choice, TokenOutput token, std::string_view bytes);

  /// A token was drafted behind the others. Its text is shown where it would be part of the answer's.
  void add_draft(int choice, std::int32_t token, std::string_view bytes);
  /// Gives up all drafts of a choice but the first `count`.
  void keep_drafts(int choice, int count);
  /// Counts a choice's drafts, `accepted` of which are tokens now, and forgets them.
  void settle_drafts(int choice);
  /// The same for drafts that were held against the cache `now`; there may be none left of them.
  void settle_verified(int choice, Clock::time_point now);

  /// The update that carries what became final since the last one; nullopt when there is nothing.
  std::optional<GenerationUpdate> take_update();

  Receipt make_receipt() const;

  /// For the metrics and the log, at the end.
  RequestReport report(const Status& error, Clock::time_point now) const;
};

/// Prepares a request for the engine: clamps max_tokens to `max_model_len`, draws an absent seed, compiles the stop strings.
/// INVALID_ARGUMENT naming the field that the contract of GenerateRequest forbids.
Result<std::unique_ptr<Generation>> make_generation(GenerateRequest request, std::shared_ptr<UpdateSink> sink,
                                                    const std::vector<std::int32_t>& model_end_tokens, int vocabulary,
                                                    int max_model_len, kv::BlockPool* pool);

/// The one line about a request at level info.
void log_request_end(const RequestReport& report);

}  // namespace lynx::server
