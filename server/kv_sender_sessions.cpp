#include <algorithm>
#include <utility>

#include "server/kv_sender_impl.h"

namespace lynx::server {

using transport::kLanes;
using transport::Lane;
using transport::LinkAddress;
using transport::PeerId;
using transport::TicketId;
using transport::UnitKey;

namespace {

scheduler::ResidualWindowOptions window_options(const KvSenderOptions& options) {
  return {.cap_bytes = std::max(options.background_window_bytes, scheduler::ResidualWindowOptions{}.floor_bytes)};
}

}  // namespace

KvSender::Impl::Impl(const KvSenderOptions& options, transport::Link* link, KvSenderEvents* events, std::span<std::byte> memory)
    : options_(options),
      link_(link),
      events_(events),
      mailbox_(link),
      slots_(memory, options.unit_bytes_max),
      scheduler_(options.chunk_bytes, options.residual_age_us) {}

void KvSender::Impl::connect(SessionId id, const LinkAddress& address) {
  if (sessions_.count(id) != 0) {
    events_->on_connected(id, Status(Code::kFailedPrecondition, "this session is connected already"));
    return;
  }
  Result<PeerId> peer = link_->connect(address);
  if (peer.ok()) {
    Session& session = sessions_[id];
    session.peer = *peer;
    session.residual = scheduler::ResidualWindow(window_options(options_));
    std::fill(std::begin(session.credit), std::end(session.credit), options_.first_credit_bytes);
    slots_.add_session(id);
    set_windows(id, session);
    infos_.refresh(id, session.peer, *link_, now_us_);
  }
  events_->on_connected(id, peer.status());
}

void KvSender::Impl::disconnect(SessionId id) {
  auto it = sessions_.find(id);
  if (it != sessions_.end()) drop_session(it);
}

void KvSender::Impl::on_peer_lost(PeerId peer, const Status& why) {
  for (const auto& [id, session] : sessions_) {
    if (session.peer != peer) continue;
    lose_session(id, why);
    return;
  }
}

void KvSender::Impl::lose_session(SessionId id, const Status& why) {
  events_->on_session_lost(id, why);
  drop_session(sessions_.find(id));
}

// Closes its tickets. The link gives back what it still reads with on_sent().
void KvSender::Impl::drop_session(std::map<SessionId, Session>::iterator it) {
  const SessionId id = it->first;
  const PeerId peer = it->second.peer;
  while (!it->second.tickets.empty()) close(*it->second.tickets.begin());
  sessions_.erase(it);
  slots_.remove_session(id);
  scheduler_.remove_peer(id);
  if (scheduler_.release_held()) link_->wake();
  infos_.erase(id);
  link_->disconnect(peer);
}

void KvSender::Impl::open(const OutgoingTicket& order, std::shared_ptr<UnitSource> source) {
  if (tickets_.count(order.ticket) != 0) return;
  auto session = sessions_.find(order.session);
  if (session == sessions_.end() || order.unit_bytes_max == 0 || order.unit_bytes_max > options_.unit_bytes_max) {
    source.reset();
    events_->on_closed(order.ticket);
    return;
  }
  session->second.tickets.insert(order.ticket);
  Ticket& ticket = tickets_[order.ticket];
  ticket.order = order;
  ticket.source = std::move(source);
  ticket.arrival = next_arrival_++;
  by_arrival_[ticket.arrival] = &ticket;
  update_load(ticket);
  std::lock_guard lock(mutex_);
  ++stats_.live_tickets;
}

void KvSender::Impl::add_units(const TicketId& id, Lane lane, const std::vector<UnitKey>& units) {
  auto it = tickets_.find(id);
  if (it == tickets_.end() || it->second.finished || it->second.complete) return;
  for (const UnitKey& unit : units) it->second.lanes[static_cast<int>(lane)].add_unit(unit, now_us_);
  update_load(it->second);
}

void KvSender::Impl::finish(const TicketId& id) {
  auto it = tickets_.find(id);
  if (it == tickets_.end()) return;
  it->second.finished = true;
  if (options_.residual_delay_us > 0) {
    it->second.lane1_from_us = link_->now_us() + options_.residual_delay_us;
    link_->wake();
  }
  for (auto& lane : it->second.lanes) lane.close();
  update_load(it->second);
  end_if_delivered(id);
}

void KvSender::Impl::end_if_delivered(const TicketId& id) {
  auto it = tickets_.find(id);
  if (it == tickets_.end() ||
      !std::all_of(std::begin(it->second.lanes), std::end(it->second.lanes), [](const auto& lane) { return lane.complete(); })) {
    return;
  }
  remove(it);
  events_->on_delivered(id);
}

void KvSender::Impl::close(const TicketId& id) {
  auto it = tickets_.find(id);
  if (it == tickets_.end()) return;
  const TicketId copy = id;  // It may be the key that remove() takes away.
  remove(it);
  events_->on_closed(copy);
}

void KvSender::Impl::remove(std::map<TicketId, Ticket>::iterator it) {
  Ticket& ticket = it->second;
  for (auto& lane : ticket.lanes) {
    for (UnitSlots::Index slot : lane.abandon()) drop_slot(slot);
  }
  scheduler_.remove(ticket.arrival);
  by_arrival_.erase(ticket.arrival);
  sessions_.at(ticket.order.session).tickets.erase(it->first);
  tickets_.erase(it);
  std::lock_guard lock(mutex_);
  --stats_.live_tickets;
}

KvSenderStats KvSender::Impl::stats() const {
  std::lock_guard lock(mutex_);
  auto stats = stats_;
  stats.slots = slots_.size();
  stats.slots_in_use = slots_.in_use();
  return stats;
}

}  // namespace lynx::server
