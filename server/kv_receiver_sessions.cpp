#include <string>
#include <utility>

#include "server/kv_receiver_impl.h"

namespace lynx::server {

using transport::LinkAddress;
using transport::PeerId;
using transport::TicketId;
using transport::TicketPhase;
using transport::TransferExpectation;

namespace {

// Tickets that are over and whose senders are answered still. A sender asks within seconds, or never.
constexpr std::size_t kPastMax = 4096;

}  // namespace

KvReceiver::Impl::Impl(const KvReceiverOptions& options, transport::Link* link, KvReceiverEvents* events,
                       std::span<std::byte> memory)
    : options_(options), link_(link), events_(events), mailbox_(link), slots_(memory, options.unit_bytes_max) {}

void KvReceiver::Impl::connect(SessionId id, const LinkAddress& address) {
  if (sessions_.count(id) != 0) {
    events_->on_connected(id, Status(Code::kFailedPrecondition, "this session is connected already"));
    return;
  }
  if (!slots_.serve_another_session()) {
    events_->on_connected(id, resource_exhausted("landing memory for " + std::to_string(slots_.size()) +
                                                 " units serves no more than " + std::to_string(sessions_.size()) + " sessions"));
    return;
  }
  Result<PeerId> peer = link_->connect(address);
  if (peer.ok()) {
    Session& session = sessions_[id];
    session.peer = *peer;
    slots_.add_session(id);
    infos_.refresh(id, session.peer, *link_, now_us_);
  }
  events_->on_connected(id, peer.status());
}

void KvReceiver::Impl::disconnect(SessionId id) {
  auto it = sessions_.find(id);
  if (it != sessions_.end()) drop_session(it);
}

void KvReceiver::Impl::on_peer_lost(PeerId peer, const Status& why) {
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->second.peer != peer) continue;
    const SessionId id = it->first;
    drop_session(it);
    events_->on_session_lost(id, why);
    return;
  }
}

// Its tickets stay until they are retired, but take no more chunks: units that are half there stay so, and their memory is others'.
void KvReceiver::Impl::drop_session(std::map<SessionId, Session>::iterator it) {
  const SessionId id = it->first;
  const PeerId peer = it->second.peer;
  sessions_.erase(it);
  for (auto& [ticket_id, ticket] : tickets_) {
    if (ticket.session == id) free_landing(ticket);
  }
  slots_.remove_session(id);
  infos_.erase(id);
  {
    std::lock_guard lock(mutex_);
    heard_.erase(id);
  }
  link_->disconnect(peer);
}

void KvReceiver::Impl::free_landing(Ticket& ticket) {
  for (const auto& [place, slot] : ticket.landing) slots_.drop(slot);
  ticket.landing.clear();
}

void KvReceiver::Impl::expect(SessionId session, TransferExpectation expectation, std::shared_ptr<UnitSink> sink) {
  const TicketId id = expectation.ticket;
  if (expectation.layers < 1 || expectation.blocks < 1 || expectation.planes.empty() || expectation.unit_bytes_max < 1 ||
      expectation.unit_bytes_max > options_.unit_bytes_max) {
    sink.reset();
    return events_->on_failed(
        id, invalid_argument("a ticket expects nothing, or units of " + std::to_string(expectation.unit_bytes_max) +
                             " bytes; landing memory is for " + std::to_string(options_.unit_bytes_max)));
  }
  if (!tickets_.try_emplace(id, session, expectation, std::move(sink)).second) return;
  std::lock_guard lock(mutex_);
  ++stats_.live_tickets;
}

void KvReceiver::Impl::retire(const TicketId& id) {
  auto it = tickets_.find(id);
  if (it != tickets_.end()) end(it, TicketPhase::kRetired);
  events_->on_retired(id);
}

// The ticket's sink is not called any more. Its sender is told at once.
void KvReceiver::Impl::end(Tickets::iterator it, TicketPhase phase) {
  const TicketId id = it->first;
  Ticket& ticket = it->second;
  free_landing(ticket);
  past_[id] = {ticket.session, ticket.expectation.secret, ticket.transfer.epoch(), phase};
  past_order_.push_back(id);
  if (past_order_.size() > kPastMax) {
    past_.erase(past_order_.front());
    past_order_.pop_front();
  }
  const SessionId session_id = ticket.session;
  const bool begun = ticket.begun;
  tickets_.erase(it);
  {
    std::lock_guard lock(mutex_);
    --stats_.live_tickets;
  }
  auto session = sessions_.find(session_id);
  if (!begun || session == sessions_.end()) return;
  session->second.to_tell.insert(id);
  flush(session->second);
}

KvReceiverStats KvReceiver::Impl::stats() const {
  std::lock_guard lock(mutex_);
  auto stats = stats_;
  stats.slots = slots_.size();
  stats.slots_in_use = slots_.in_use();
  return stats;
}

std::uint64_t KvReceiver::Impl::chunks_heard(SessionId id) const {
  std::lock_guard lock(mutex_);
  auto it = heard_.find(id);
  return it == heard_.end() ? 0 : it->second;
}

}  // namespace lynx::server
