#pragma once

// The decode node's tickets as pure decisions: which prefill node computes a prompt, what happens when it refuses, dies or falls
// silent, and when a request's blocks are free of transfers. Told what happened and when, it answers with commands. No clock, no
// I/O.
//
// Policy
// - The node with the least outstanding prompt tokens is chosen: tokens of tickets whose first tokens have not come yet.
// - A node that is lost has its requests ticketed again elsewhere, in the same blocks, once the old transfer is retired: nothing of
//   it can land any more. A node that refused one is not asked again for it: nodes may differ in size, so every other one that is
//   up is asked before the last refusal is the answer.
// - While the engine may read the Anchors of a transfer it is not retired: another one might write them. The engine is asked to let
//   go of them first.
// - With no node up a request waits `patience`, then fails with UNAVAILABLE.
//
// Guarantees: after want(id) exactly one of kArrived and kReleased is the last notice about it, whatever happens. Neither comes
// while a transfer may still write. kFailed comes at most once, and waits for end() like a request that lives.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/status.h"

namespace lynx::scheduler {

using RequestNumber = std::uint64_t;
using TicketNumber = std::uint64_t;  ///< One per attempt; never used twice.
using NodeIndex = int;               ///< Index into --prefill.

struct TicketDeskOptions {
  int nodes = 1;
  std::int64_t patience_us = 3'000'000;  ///< How long a request waits for a node to come up.
  int max_attempts = 8;                  ///< Tickets of one request in all: bounds how many nodes a prompt could take down.
};

struct TicketCommand {
  enum class Kind {
    kIssue,        ///< Expect the transfer (if `cache`), then send the ticket to `node`.
    kCancel,       ///< Tell `node` that the ticket is not wanted any more.
    kRelease,      ///< Tell `node` that its copy of the cache is not needed any more.
    kRetire,       ///< Let nothing of this ticket land any more; answer with retired().
    kAnchored,     ///< Notice: the request's Anchors are there, to be read.
    kAnchorsLost,  ///< Notice: they are to be read no more; answer with anchors_let_go().
    kArrived,      ///< Notice: the request's cache is complete. The last one about it.
    kReleased,     ///< Notice: nothing will write to the request's blocks. The last one about it.
    kFailed,       ///< Notice: no cache will come, because of `why`.
  };
  Kind kind;
  RequestNumber request = 0;
  TicketNumber ticket = 0;
  NodeIndex node = 0;
  Status why;
};

/// What a request needs of a prefill node.
struct TicketWish {
  int prompt_tokens = 0;
  bool cache = true;  ///< False: first tokens and scores only, nothing is transferred.
};

/// Not thread-safe.
class TicketDesk {
 public:
  explicit TicketDesk(TicketDeskOptions options);

  // What happened. Unknown and outdated numbers are ignored. Commands are appended to `out`, to be carried out in order.

  void want(RequestNumber request, const TicketWish& wish, std::int64_t now_us, std::vector<TicketCommand>* out);
  /// The engine is done with the request (it ended, failed or was preempted) and waits for kReleased. It reads no Anchors any more.
  void end(RequestNumber request, std::vector<TicketCommand>* out);

  /// One that drains stays out until it was down.
  void node_up(NodeIndex node, std::vector<TicketCommand>* out);
  /// It takes no new tickets; those it has go on.
  void node_draining(NodeIndex node);
  void node_down(NodeIndex node, const Status& why, std::vector<TicketCommand>* out);

  /// They were handed to the engine. A cache counts as arrived only after them.
  void first_tokens(TicketNumber ticket, std::vector<TicketCommand>* out);
  void anchored(TicketNumber ticket, std::vector<TicketCommand>* out);
  void anchors_let_go(RequestNumber request, std::vector<TicketCommand>* out);
  void arrived(TicketNumber ticket, std::vector<TicketCommand>* out);
  /// The prefill node refused or failed; DATA_LOSS: its transfer was given up, or did not decode.
  void ticket_failed(TicketNumber ticket, const Status& why, std::vector<TicketCommand>* out);
  void retired(TicketNumber ticket, std::int64_t now_us, std::vector<TicketCommand>* out);

  void tick(std::int64_t now_us, std::vector<TicketCommand>* out);
  std::int64_t next_tick_us() const;  ///< INT64_MAX: never.

  /// A prompt is computed there, as its first tokens say, and its cache has not arrived: data is on its way, or should be.
  bool awaits_cache(NodeIndex node) const;
  bool node_is_up(NodeIndex node) const { return nodes_[static_cast<std::size_t>(node)].up; }
  std::int64_t outstanding_tokens(NodeIndex node) const { return nodes_[static_cast<std::size_t>(node)].outstanding_tokens; }
  std::optional<RequestNumber> request_of(TicketNumber ticket) const;
  /// The request that `node` computes by this ticket; nullopt: it is another node's, or nobody's any more.
  std::optional<RequestNumber> computed_at(NodeIndex node, TicketNumber ticket) const;
  std::size_t live() const { return requests_.size(); }

 private:
  enum class State {
    kWaiting,   ///< For a node to come up.
    kTicketed,  ///< A node has the ticket.
    kRetiring,  ///< Its ticket is being retired, once nobody reads its Anchors; then `after` happens.
    kFailing,   ///< kFailed was said; end() has not come yet.
  };
  enum class After { kTryAgain, kFail, kRelease };
  struct Request {
    TicketWish wish;
    State state = State::kWaiting;
    After after = After::kRelease;
    std::int64_t patience_ends_us = 0;
    int attempts = 0;
    TicketNumber ticket = 0;
    NodeIndex node = -1;
    bool counted = false;  ///< Its tokens are outstanding at `node`.
    bool has_first_tokens = false;
    bool has_cache = false;
    bool anchored = false;  ///< The engine may read its Anchors.
    std::set<NodeIndex> refused;
    Status why;  ///< Of the last failure.
  };
  struct Node {
    bool up = false;
    bool draining = false;
    std::int64_t outstanding_tokens = 0;
    int tickets = 0;
  };
  using Requests = std::map<RequestNumber, Request>;

  std::optional<NodeIndex> choose(const Request& request) const;
  void wait(Request& request, std::int64_t now_us) const;
  void issue(RequestNumber id, Request& request, std::vector<TicketCommand>* out);
  void leave_node(Request& request);
  void hand_over_if_complete(Requests::iterator it, std::vector<TicketCommand>* out);
  void uncount(Request& request);
  void retire(RequestNumber id, Request& request, After after, std::vector<TicketCommand>* out);
  static void let_go(RequestNumber id, Request& request, std::vector<TicketCommand>* out);
  void fail(RequestNumber id, Request& request, std::vector<TicketCommand>* out);
  Requests::iterator by_ticket(TicketNumber ticket);

  TicketDeskOptions options_;
  std::vector<Node> nodes_;
  Requests requests_;
  std::map<TicketNumber, RequestNumber> tickets_;
  TicketNumber next_ticket_ = 1;
};

}  // namespace lynx::scheduler
