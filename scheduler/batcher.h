#pragma once

// Continuous batching as pure decisions: told what happened, it says what to do next. No clock, no I/O, no memory but counts.
//
// Policy
// - First come, first served: requests are admitted in order of arrival and nothing overtakes the head of the queue, so every
//   running request is older than every waiting one. The youngest running request is the one preempted.
// - A pass carries a decode step of every sequence that has one, then prompt and replay chunks in the rows that are left: half of
//   them for the oldest, the rest shared by the others, so that a short prompt does not wait for a long one.
// - A preempted request prefills its original prompt again and replays its generated tokens as generated tokens.
// - Blocks are counted here and owned by kv/. They count as held until released() says that nothing uses them any more.
//
// - A remote prompt is a running request without rows. Its first tokens may come, and end it, before its cache does.
// - Once its Anchors are there it drafts, one token of each choice a pass, in rows and blocks that nobody else wants. Blocks that
//   only drafts need are taken back before anybody is preempted. With its cache complete, a choice's drafts ride on its next
//   decode step: one row more for each (kVerify).
//
// Progress: the oldest running request always ends. It has rows in every pass (max_running is clamped to the pass's rows and logit
// rows, so decode steps always fit and leave at least one row while anything prefills; the oldest is served first). It has blocks:
// if one is missing, younger ones are preempted until it runs alone, and submit() refused any request that does not fit alone. So
// it ends after finitely many passes, and the next one is the oldest. (A remote prompt ends or arrives in finite time: its owner's
// promise.)

#include <cstdint>
#include <map>
#include <vector>

#include "common/status.h"
#include "scheduler/request_blocks.h"
#include "scheduler/request_state.h"

namespace lynx::scheduler {

/// Given out in order of arrival: a smaller id is an older request.
using RequestId = std::uint64_t;

struct SequenceId {
  RequestId request;
  int choice;
  friend bool operator==(const SequenceId&, const SequenceId&) = default;
};

struct BatcherLimits {
  int blocks = 0;  ///< KV blocks in all.
  int block_tokens = 64;
  int rows_per_pass = 512;
  int logit_rows_per_pass = 512;        ///< Rows of one pass that may ask for logits.
  int chunk_rows_beside_decodes = 512;  ///< Prompt and replay rows of a pass that also decodes: bounds the pause between tokens.
  int max_running = 64;                 ///< Sequences (choices) admitted at once; clamped to rows and logit rows of a pass.
  int max_waiting = 1024;               ///< Requests queued and never admitted yet.
};

struct RequestShape {
  int prompt_tokens = 0;      ///< ≥ 1.
  int choices = 1;            ///< ≥ 1.
  int max_tokens = 0;         ///< Per choice, already clamped to the context; 0: the prompt is only scored.
  bool score_prompt = false;  ///< Every prompt position's logits are wanted, once.
  /// The prompt is computed by another node: the request gets blocks for it, but no rows, until prompt_arrived().
  bool remote_prompt = false;
};

enum class PassKind {
  kPrefill,  ///< Prompt tokens; sequence.choice is the one that computes them for all.
  kReplay,   ///< Tokens generated before a preemption.
  kDecode,   ///< The last generated token.
  kDraft,    ///< Tokens that the Anchors have not seen: generated ones, and the last draft. Never part of the answer.
  kVerify,   ///< The last generated token and drafts behind it, against the complete cache.
};

/// Positions start … start+count−1 of a sequence. Its last `logit_rows` rows give logits.
struct PassItem {
  SequenceId sequence;
  int start;
  int count;
  PassKind kind;
  int logit_rows;
};

/// What to do now. When anything is to be preempted there is no pass: release, report, ask again.
struct BatcherStep {
  /// Before all else: these keep the blocks of their tokens and give the others back, which count as free already. Their drafts
  /// stay.
  std::vector<SequenceId> take_back;
  std::vector<RequestId> preempt;  ///< Give back the blocks of all their live choices.
  std::vector<RequestId> admit;    ///< They have blocks for their prompt: from now on in passes, or awaiting their cache.
  std::vector<PassItem> pass;      ///< Decode steps first. Blocks for all of it are taken.
};

/// Not thread-safe.
class Batcher {
 public:
  explicit Batcher(BatcherLimits limits);

  /// RESOURCE_EXHAUSTED naming the capacity if `shape` could never run. Depends on the limits alone.
  Status check_capacity(const RequestShape& shape) const;

  /// The largest max_tokens, at most that of `shape`, with which the KV blocks hold all of its choices; 0 if not even one token
  /// each fits. Depends on the limits alone.
  int largest_max_tokens(const RequestShape& shape) const;

  // What happened. Calls that make no sense in the request's state (late ones, unknown ids) are ignored.

  /// A request arrived; ids ascend. Besides check_capacity: UNAVAILABLE when the queue is full, naming its size.
  Status submit(RequestId id, const RequestShape& shape);
  void pass_completed();              ///< The pass of the last next() is computed.
  void prompt_arrived(RequestId id);  ///< The cache of its remote prompt is complete; its first tokens were added before.
  void token_added(SequenceId id);    ///< A token was chosen from the sequence's logits (by another node, if it awaits its cache).
  void anchored(RequestId id, int drafts);  ///< Its Anchors are there: up to so many tokens of each choice may be drafted.
  void anchors_lost(RequestId id);          ///< They are about to be overwritten; its drafts are dropped.
  /// A token was drafted; `last`: it would end its choice, and none is wanted behind it.
  void drafted(SequenceId id, bool last = false);
  /// So many of the drafts in the last pass were right; each is one of the tokens that token_added() tells of.
  void accepted(SequenceId id, int drafts);
  void choice_ended(SequenceId id);  ///< No further token is wanted. Its blocks stay held until released().
  void failed(RequestId id);         ///< Cancelled or failed. Its blocks stay held until released().
  void released(SequenceId id);      ///< The blocks of this (ended, failed or preempted) sequence are free.

  /// Decides. Nothing while a pass is under way.
  BatcherStep next();

  int free_blocks() const { return free_; }
  const BatcherLimits& limits() const { return limits_; }  ///< As clamped.
  int waiting() const;                                     ///< Requests queued or preempted.
  int running() const;                                     ///< Requests.
  bool idle() const { return requests_.empty(); }          ///< All ended and released.
  std::optional<RequestState> state(RequestId id) const;   ///< nullopt: unknown, or ended and released.

 private:
  struct Choice {
    int generated = 0;
    int computed = 0;        ///< Positions whose KV is stored; the prompt's are counted in Request until it is complete.
    int drafted = 0;         ///< Drafts behind the generated tokens.
    int draft_computed = 0;  ///< As `computed`, on the Anchors.
    bool drafted_end = false;
    bool ended = false;
  };
  struct Request {
    RequestShape shape;
    RequestState state = RequestState::kQueued;
    RequestBlocks blocks;
    std::vector<Choice> choices;
    int prompt_computed = 0;
    int prompt_scored = 0;  ///< Positions whose logits have been given.
    int draft_limit = 0;    ///< Tokens of each choice.
  };
  using Requests = std::map<RequestId, Request>;

  /// A chunk that could be in the next pass: `rows` positions are missing.
  struct Candidate {
    Request* request;
    SequenceId sequence;
    int start;
    int rows;
  };

  static bool apply(Request& request, RequestEvent event);
  static int live_choices(const Request& request);
  static int leader(const Request& request);
  void share_prompt(Request& request);
  void prompt_completed(Request& request);
  static void drop_drafts(Request& request);
  static bool has_drafts(const Request& request);
  static int growth(const Request& request);
  int retiring_blocks() const;
  void preempt_until_it_fits(BatcherStep* step);
  std::vector<SequenceId> take_back(int blocks);
  static void preempt(Request& request);
  std::vector<RequestId> admit_in_order();
  bool take_blocks(Request& request, int choice, int tokens);
  struct Room {
    int rows;
    int logits;
  };
  Room room_beside(const std::vector<PassItem>& pass) const;
  bool take_spare_blocks(Request& request, int choice, int tokens);
  void plan_decodes(std::vector<PassItem>& pass);
  void add_verifications(std::vector<PassItem>& pass);
  void plan_drafts(std::vector<PassItem>& pass);
  std::vector<Candidate> chunk_candidates();
  static int logit_rows(const Candidate& candidate, int count);
  static std::vector<int> share_rows(const std::vector<Candidate>& candidates, int rows);
  void plan_chunks(std::vector<PassItem>& pass);
  void erase_if_done(Requests::iterator it);

  BatcherLimits limits_;
  Requests requests_;  ///< In order of arrival.
  std::vector<PassItem> in_pass_;
  int free_;
};

}  // namespace lynx::scheduler
