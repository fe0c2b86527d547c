#include "tests/sim/transfer_world.h"

#include <algorithm>
#include <utility>

#include "tests/sim/world_parts.h"

namespace lynx::sim {

using namespace lynx::transport;

namespace {

// Much more than any seed needs.
constexpr std::int64_t kEndUs = 400'000'000;

FlightLimits limits_of(const WorldPlan& plan) {
  FlightLimits limits;
  limits.window[0] = plan.sender.high_window_bytes;
  limits.window[1] = plan.sender.background_window_bytes;
  limits.credit[0] = plan.receiver.high_credit_bytes;
  limits.credit[1] = plan.receiver.background_credit_bytes;
  limits.first_credit = plan.sender.first_credit_bytes;
  limits.slots_are_plenty = plan.priority_is_checked;
  return limits;
}

}  // namespace

TransferWorld::TransferWorld(std::uint32_t seed, bool two_steps, WorldCoverage* coverage)
    : draw_(seed),
      plan_(draw_plan(draw_)),
      coverage_(coverage),
      flight_(limits_of(plan_), [this](const std::string& what) { fail(what); }),
      network_(&clock_, seed + 1, plan_.faults, this),
      to_arrive_(plan_.tickets) {
  plan_.two_steps = two_steps;
  prefills_.resize(static_cast<std::size_t>(plan_.prefill_nodes));
  decodes_.resize(static_cast<std::size_t>(plan_.decode_nodes));
  for (std::size_t i = 0; i < prefills_.size(); ++i) start_prefill(i, 0);
  for (std::size_t i = 0; i < decodes_.size(); ++i) start_decode(i, 0);
  for (int ticket = 0; ticket < plan_.tickets; ++ticket) {
    clock_.at(draw_.between(0, plan_.arrivals_us), [this] { arrive(); });
  }
  plan_troubles();
}

TransferWorld::~TransferWorld() = default;

void TransferWorld::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what + " at " + std::to_string(clock_.now_us()) + " us";
}

bool TransferWorld::settled() const {
  return to_arrive_ == 0 && live_.empty();
}

std::string TransferWorld::run() {
  while (failure_.empty() && clock_.now_us() < kEndUs && clock_.step()) {
  }
  if (!failure_.empty()) return failure_;
  if (!settled()) {
    std::string which = std::to_string(to_arrive_) + " tickets did not start";
    for (const TicketId& id : live_) {
      const Ticket& ticket = *tickets_.at(id);
      which += ", ticket " + std::to_string(id.request) + (ticket.receiver_over ? "" : " is open at the receiver") +
               (ticket.sender_over ? "" : " is open at the sender") + (ticket.aborted ? ", aborted" : "") +
               (ticket.harmed ? ", harmed" : "");
    }
    fail(which);
  }
  if (clock_.now_us() >= kEndUs) fail("the nodes do not come to rest");
  check_rest();
  return failure_;
}

// All is over: nothing is held any more, and every ticket ended as it should have.
void TransferWorld::check_rest() {
  for (const auto& node : prefills_) {
    const auto stats = node->sender->stats();
    if (stats.live_tickets != 0 || stats.slots_in_use != 0) fail("a sender still holds tickets or slots");
    if (stats.bytes_acknowledged > stats.bytes_sent) fail("more acknowledged than sent");
    count(*node);
  }
  for (const auto& node : decodes_) {
    const auto stats = node->receiver->stats();
    if (stats.live_tickets != 0 || stats.slots_in_use != 0) fail("a receiver still holds tickets or slots");
    count(*node);
  }
  for (const auto& [id, ticket] : tickets_) {
    const bool poisoned = ticket->poisoned < ticket->units.size();
    if (!ticket->aborted && !ticket->harmed && !poisoned && !(ticket->complete && ticket->delivered))
      fail("a ticket was not served");
    if (poisoned && ticket->complete) fail("a ticket is complete though a unit did not decode");
    if (ticket->complete && ticket->anchored != ticket->awaited_residuals) fail("on_anchored did not come");
    coverage_->anchored_not_complete += ticket->anchored && !ticket->complete ? 1 : 0;
    coverage_->completed += ticket->complete ? 1 : 0;
    coverage_->aborted += ticket->aborted && !ticket->complete ? 1 : 0;
  }
}

void TransferWorld::count(const Prefill& node) {
  const auto stats = node.sender->stats();
  coverage_->epochs += stats.epochs_restarted;
  coverage_->resent += stats.chunks_resent;
}

void TransferWorld::count(const Decode& node) {
  const auto stats = node.receiver->stats();
  coverage_->damaged += stats.chunks_damaged;
  coverage_->duplicate += stats.chunks_duplicate;
  coverage_->stale += stats.chunks_stale;
  coverage_->foreign += stats.chunks_foreign;
  coverage_->unplaced += stats.chunks_unplaced;
  coverage_->asked_again += stats.asked_again;
}

void TransferWorld::on_send(NodeId from, NodeId, std::span<const std::byte> header, std::span<const std::byte> payload) {
  for (const auto& node : prefills_) {
    if (!node || node->node != from) continue;
    const std::uint64_t epochs = node->sender->stats().epochs_restarted;
    if (epochs != std::exchange(node->epochs_seen, epochs)) {
      for (const auto& [id, session] : sessions_) {
        if (session->prefill == node.get()) flight_.forget(id);
      }
    }
  }
  flight_.on_send(header, payload);
}

void TransferWorld::on_deliver(NodeId, NodeId to, std::span<const std::byte> header, std::span<const std::byte> payload) {
  for (const auto& node : prefills_) {
    if (node && node->node == to) flight_.on_deliver(header, payload);
  }
  for (const auto& node : decodes_) {
    if (node && node->node == to) count_early(*node, header);
  }
}

// Residuals that come while their Anchors are not placed.
void TransferWorld::count_early(const Decode& node, std::span<const std::byte> header_bytes) {
  const auto header = decode_header(header_bytes);
  if (!header.ok() || !is_residual(header->unit.plane)) return;
  const auto it = tickets_.find(header->ticket);
  if (it == tickets_.end() || it->second->decode != &node || it->second->receiver_over) return;
  UnitKey anchor = header->unit;
  anchor.plane = Plane::kAnchor;
  coverage_->early += it->second->region->units.count(place_of(anchor)) == 0 ? 1 : 0;
}

}  // namespace lynx::sim
