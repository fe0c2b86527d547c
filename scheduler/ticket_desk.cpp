#include "scheduler/ticket_desk.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lynx::scheduler {
namespace {

using Kind = TicketCommand::Kind;

}  // namespace

TicketDesk::TicketDesk(TicketDeskOptions options) : options_(options), nodes_(static_cast<std::size_t>(options.nodes)) {}

void TicketDesk::want(RequestNumber id, const TicketWish& wish, std::int64_t now_us, std::vector<TicketCommand>* out) {
  const auto [it, fresh] = requests_.try_emplace(id);
  if (!fresh) return;
  it->second.wish = wish;
  it->second.why = {Code::kUnavailable, "no prefill node is connected"};
  wait(it->second, now_us);
  issue(id, it->second, out);
}

void TicketDesk::end(RequestNumber id, std::vector<TicketCommand>* out) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Request& request = it->second;
  switch (request.state) {
    case State::kTicketed:
      out->push_back({.kind = Kind::kCancel, .request = id, .ticket = request.ticket, .node = request.node, .why = {}});
      request.anchored = false;
      retire(id, request, After::kRelease, out);
      return;
    case State::kRetiring: request.after = After::kRelease; return let_go(id, request, out);
    case State::kWaiting:
    case State::kFailing:
      out->push_back({.kind = Kind::kReleased, .request = id, .why = {}});
      requests_.erase(it);
      return;
  }
}

void TicketDesk::node_up(NodeIndex node, std::vector<TicketCommand>* out) {
  Node& here = nodes_[static_cast<std::size_t>(node)];
  if (here.draining) return;
  here.up = true;
  for (auto& [id, request] : requests_) {
    // A node that comes back is another one than that which refused or died.
    request.refused.erase(node);
    if (request.state == State::kWaiting) issue(id, request, out);
  }
}

void TicketDesk::node_draining(NodeIndex node) {
  nodes_[static_cast<std::size_t>(node)].up = false;
  nodes_[static_cast<std::size_t>(node)].draining = true;
}

void TicketDesk::node_down(NodeIndex node, const Status& why, std::vector<TicketCommand>* out) {
  nodes_[static_cast<std::size_t>(node)].up = false;
  nodes_[static_cast<std::size_t>(node)].draining = false;
  for (auto& [id, request] : requests_) {
    if (request.state != State::kTicketed || request.node != node) continue;
    request.why = why;
    retire(id, request, request.attempts < options_.max_attempts ? After::kTryAgain : After::kFail, out);
  }
}

void TicketDesk::first_tokens(TicketNumber ticket, std::vector<TicketCommand>* out) {
  const auto it = by_ticket(ticket);
  if (it == requests_.end() || it->second.state != State::kTicketed) return;
  uncount(it->second);
  it->second.has_first_tokens = true;
  hand_over_if_complete(it, out);
}

// One that is being retired already may say so still: too late, its Anchors are about to be written anew.
void TicketDesk::anchored(TicketNumber ticket, std::vector<TicketCommand>* out) {
  const auto it = by_ticket(ticket);
  if (it == requests_.end() || it->second.state != State::kTicketed || std::exchange(it->second.anchored, true)) return;
  out->push_back({.kind = Kind::kAnchored, .request = it->first, .ticket = ticket, .node = it->second.node, .why = {}});
}

void TicketDesk::anchors_let_go(RequestNumber id, std::vector<TicketCommand>* out) {
  const auto it = requests_.find(id);
  if (it != requests_.end() && it->second.state == State::kRetiring) let_go(id, it->second, out);
}

void TicketDesk::arrived(TicketNumber ticket, std::vector<TicketCommand>* out) {
  const auto it = by_ticket(ticket);
  if (it == requests_.end() || it->second.state != State::kTicketed) return;
  it->second.has_cache = true;
  hand_over_if_complete(it, out);
}

void TicketDesk::hand_over_if_complete(Requests::iterator it, std::vector<TicketCommand>* out) {
  auto& [id, request] = *it;
  if (!request.has_first_tokens || !request.has_cache) return;
  out->push_back({.kind = Kind::kRelease, .request = id, .ticket = request.ticket, .node = request.node, .why = {}});
  out->push_back({.kind = Kind::kArrived, .request = id, .ticket = request.ticket, .node = request.node, .why = {}});
  leave_node(request);
  tickets_.erase(request.ticket);
  requests_.erase(it);
}

void TicketDesk::ticket_failed(TicketNumber ticket, const Status& why, std::vector<TicketCommand>* out) {
  const auto it = by_ticket(ticket);
  if (it == requests_.end() || it->second.state != State::kTicketed) return;
  Request& request = it->second;
  request.why = why;
  if (why.code() != Code::kDataLoss) request.refused.insert(request.node);  // Else the network's fault: the same node may do.
  const bool again = request.attempts < options_.max_attempts && choose(request).has_value();
  out->push_back({.kind = Kind::kCancel, .request = it->first, .ticket = ticket, .node = request.node, .why = {}});
  retire(it->first, request, again ? After::kTryAgain : After::kFail, out);
}

void TicketDesk::retired(TicketNumber ticket, std::int64_t now_us, std::vector<TicketCommand>* out) {
  const auto it = by_ticket(ticket);
  if (it == requests_.end() || it->second.state != State::kRetiring) return;
  Request& request = it->second;
  tickets_.erase(ticket);
  request.ticket = 0;
  switch (request.after) {
    case After::kTryAgain:
      wait(request, now_us);
      issue(it->first, request, out);
      return;
    case After::kFail: fail(it->first, request, out); return;
    case After::kRelease:
      out->push_back({.kind = Kind::kReleased, .request = it->first, .why = {}});
      requests_.erase(it);
      return;
  }
}

void TicketDesk::tick(std::int64_t now_us, std::vector<TicketCommand>* out) {
  for (auto& [id, request] : requests_) {
    if (request.state == State::kWaiting && now_us >= request.patience_ends_us) fail(id, request, out);
  }
}

std::int64_t TicketDesk::next_tick_us() const {
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  for (const auto& [id, request] : requests_) {
    if (request.state == State::kWaiting) next = std::min(next, request.patience_ends_us);
  }
  return next;
}

bool TicketDesk::awaits_cache(NodeIndex node) const {
  return std::any_of(requests_.begin(), requests_.end(), [node](const auto& entry) {
    const Request& request = entry.second;
    return request.state == State::kTicketed && request.node == node && request.has_first_tokens && !request.has_cache &&
           request.wish.cache;
  });
}

std::optional<RequestNumber> TicketDesk::request_of(TicketNumber ticket) const {
  const auto it = tickets_.find(ticket);
  if (it == tickets_.end()) return std::nullopt;
  return it->second;
}

std::optional<RequestNumber> TicketDesk::computed_at(NodeIndex node, TicketNumber ticket) const {
  const auto number = request_of(ticket);
  if (!number) return std::nullopt;
  const Request& request = requests_.at(*number);
  return request.state == State::kTicketed && request.node == node ? number : std::nullopt;
}

std::optional<NodeIndex> TicketDesk::choose(const Request& request) const {
  std::optional<NodeIndex> best;
  const auto load = [&](NodeIndex index) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    return std::pair(node.outstanding_tokens, node.tickets);
  };
  for (NodeIndex index = 0; index < options_.nodes; ++index) {
    if (!node_is_up(index) || request.refused.count(index) > 0) continue;
    if (!best || load(index) < load(*best)) best = index;
  }
  return best;
}

void TicketDesk::wait(Request& request, std::int64_t now_us) const {
  request.state = State::kWaiting;
  request.patience_ends_us = now_us + options_.patience_us;
}

void TicketDesk::issue(RequestNumber id, Request& request, std::vector<TicketCommand>* out) {
  const std::optional<NodeIndex> node = choose(request);
  if (!node) return;
  request.state = State::kTicketed;
  request.node = *node;
  request.ticket = next_ticket_++;
  request.counted = true;
  request.has_first_tokens = false;
  request.has_cache = false;
  ++request.attempts;
  tickets_.emplace(request.ticket, id);
  Node& chosen = nodes_[static_cast<std::size_t>(*node)];
  chosen.outstanding_tokens += request.wish.prompt_tokens;
  ++chosen.tickets;
  out->push_back({.kind = Kind::kIssue, .request = id, .ticket = request.ticket, .node = *node, .why = {}});
}

void TicketDesk::uncount(Request& request) {
  if (!std::exchange(request.counted, false)) return;
  nodes_[static_cast<std::size_t>(request.node)].outstanding_tokens -= request.wish.prompt_tokens;
}

void TicketDesk::leave_node(Request& request) {
  uncount(request);
  --nodes_[static_cast<std::size_t>(request.node)].tickets;
  request.node = -1;
}

void TicketDesk::retire(RequestNumber id, Request& request, After after, std::vector<TicketCommand>* out) {
  request.state = State::kRetiring;
  request.after = after;
  const Kind kind = request.anchored ? Kind::kAnchorsLost : Kind::kRetire;
  out->push_back({.kind = kind, .request = id, .ticket = request.ticket, .node = request.node, .why = {}});
  leave_node(request);
}

// Of a ticket that is being retired.
void TicketDesk::let_go(RequestNumber id, Request& request, std::vector<TicketCommand>* out) {
  if (!std::exchange(request.anchored, false)) return;
  out->push_back({.kind = Kind::kRetire, .request = id, .ticket = request.ticket, .node = request.node, .why = {}});
}

void TicketDesk::fail(RequestNumber id, Request& request, std::vector<TicketCommand>* out) {
  request.state = State::kFailing;
  out->push_back({.kind = Kind::kFailed, .request = id, .why = request.why});
}

TicketDesk::Requests::iterator TicketDesk::by_ticket(TicketNumber ticket) {
  const auto it = tickets_.find(ticket);
  return it == tickets_.end() ? requests_.end() : requests_.find(it->second);
}

}  // namespace lynx::scheduler
