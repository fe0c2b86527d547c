#include <algorithm>
#include <string>
#include <utility>

#include "server/kv_sender_impl.h"
#include "transport/crc32c.h"

namespace lynx::server {

using transport::AckMessage;
using transport::kLanes;
using transport::MessageKind;
using transport::TicketId;
using transport::TicketPhase;
using transport::TransferSender;
using transport::WireHeader;

namespace {

// A receiver asks for a unit after a silence; what left since then may be on its way still.
constexpr std::int64_t kOnItsWayUs = 500'000;

}  // namespace

void KvSender::Impl::count_foreign() {
  std::lock_guard lock(mutex_);
  ++stats_.foreign_messages;
}

void KvSender::Impl::on_message(std::span<const std::byte> header_bytes, std::span<const std::byte> payload) {
  now_us_ = link_->now_us();
  mailbox_.drain();
  auto header = transport::decode_header(header_bytes);
  if (!header.ok() || header->kind != MessageKind::kAck || header->length != payload.size() ||
      header->payload_crc != transport::crc32c(payload)) {
    return count_foreign();
  }
  auto it = tickets_.find(header->ticket);
  if (it == tickets_.end() || !transport::equal_secrets(it->second.order.secret, header->secret)) return count_foreign();
  auto ack = transport::decode_ack(payload);
  if (!ack.ok()) return count_foreign();
  apply_ack(it->second, *header, *ack);
  push();
}

// May close the ticket.
void KvSender::Impl::apply_ack(Ticket& ticket, const WireHeader& header, const AckMessage& ack) {
  const TicketId id = header.ticket;
  Session& session = sessions_.at(ticket.order.session);
  session.heard_us = now_us_;
  infos_.refresh(ticket.order.session, session.peer, *link_, now_us_);
  apply_grant(session, header.sequence, ack);
  set_windows(ticket.order.session, session);
  if (ack.phase == TicketPhase::kRetired) return close(id);
  std::vector<UnitSlots::Index> done;
  const std::uint64_t acked_before = ticket.lanes[0].acked_bytes() + ticket.lanes[1].acked_bytes();
  bool rejected = false;
  if (header.epoch == ticket.epoch) {
    TransferSender& lane = ticket.lanes[static_cast<int>(header.lane)];
    for (auto range : ack.acked) lane.on_acked(range, now_us_, &done);
    for (std::uint32_t sequence : ack.rejected) rejected |= lane.on_rejected(sequence);
    for (const auto& unit : ack.missing) {
      for (TransferSender& each : ticket.lanes) each.on_missing(unit, now_us_ - kOnItsWayUs);
    }
  }
  std::uint64_t acked = ticket.lanes[0].acked_bytes() + ticket.lanes[1].acked_bytes() - acked_before;
  if (acked > 0 || rejected) ticket.silent_epochs = ticket.ignored_epochs = 0;  // A receiver without room answers too.
  if (acked > 0) ticket.rejected_since_us = 0;
  if (acked == 0 && rejected) {
    if (ticket.rejected_since_us == 0) ticket.rejected_since_us = now_us_;
    if (now_us_ - ticket.rejected_since_us >= options_.rejected_us) return close(id);  // Nothing gets through whole.
  }
  measure(session, ticket);
  set_windows(ticket.order.session, session);
  if (ack.phase == TicketPhase::kComplete) {
    ticket.complete = true;
    for (TransferSender& lane : ticket.lanes) {
      acked += lane.begun_bytes();
      for (UnitSlots::Index slot : lane.abandon()) done.push_back(slot);
    }
  }
  for (UnitSlots::Index slot : done) drop_slot(slot);
  {
    std::lock_guard lock(mutex_);
    stats_.bytes_acknowledged += acked;
  }
  update_load(ticket);
  end_if_delivered(id);
}

// Acknowledgements of one session are numbered; an old one that comes late does not undo a newer grant.
void KvSender::Impl::apply_grant(Session& session, std::uint32_t sequence, const AckMessage& ack) {
  if (session.last_grant && static_cast<std::int32_t>(sequence - *session.last_grant) <= 0) return;
  session.last_grant = sequence;
  std::copy(std::begin(ack.credit_bytes), std::end(ack.credit_bytes), std::begin(session.credit));
}

// What an acknowledgement tells about the path.
void KvSender::Impl::measure(Session& session, Ticket& ticket) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const transport::AckedBytes acked = ticket.lanes[lane].take_acked();
    if (acked.bytes > 0) session.residual.on_acked(lane, acked.bytes, acked.newest_sent_us, now_us_);
  }
}

void KvSender::Impl::set_windows(SessionId id, const Session& session) {
  const std::uint64_t background = options_.adaptive_window ? session.residual.window_bytes() : options_.background_window_bytes;
  scheduler_.set_window(id, 0, std::min(options_.high_window_bytes, session.credit[0]));
  scheduler_.set_window(id, 1, std::min({options_.background_window_bytes, background, session.credit[1]}));
  if (options_.adaptive_window) scheduler_.set_chunk(id, 1, session.residual.chunk_bytes());
  scheduler_.set_overlap(id, options_.adaptive_window ? session.residual.overlap_bytes() : background);
}

std::int64_t KvSender::Impl::on_tick(std::int64_t now_us) {
  now_us_ = now_us;
  next_tick_us_ = 0;  // push() need not wake the tick that it runs in.
  mailbox_.drain();
  watch();
  for (auto& [id, ticket] : tickets_) {
    if (ticket.lane1_from_us == 0 || now_us < ticket.lane1_from_us) continue;
    ticket.lane1_from_us = 0;
    update_load(ticket);
  }
  push();
  return next_tick_us_ = next_deadline();
}

// Tickets that wait for an acknowledgement for too long begin a new epoch; after some in a row the peer is given up.
void KvSender::Impl::watch() {
  std::set<SessionId> silent;
  std::set<SessionId> lost;
  std::vector<TicketId> hopeless;
  for (auto& [id, ticket] : tickets_) {
    const bool late = std::any_of(std::begin(ticket.lanes), std::end(ticket.lanes), [&](const TransferSender& lane) {
      return lane.in_flight_bytes() > 0 && now_us_ - lane.last_progress_us() >= options_.watchdog_us;
    });
    if (!late) continue;
    const SessionId session = ticket.order.session;
    const std::int64_t silence_us = now_us_ - sessions_.at(session).heard_us;
    const bool heard = silence_us < options_.watchdog_us;
    if (!heard) silent.insert(session);
    // Epochs of a silent peer tell nothing about the ticket: one that is back takes the tickets one after the other.
    if (heard && ticket.ignored_epochs >= options_.watchdog_epochs) {
      hopeless.push_back(id);  // Its peer lives, and does not take it.
    } else if (ticket.silent_epochs >= options_.watchdog_epochs && silence_us >= options_.watchdog_us * options_.watchdog_epochs) {
      lost.insert(session);
    } else {
      ticket.ignored_epochs += heard ? 1 : 0;
      restart(ticket);
    }
  }
  for (SessionId session : silent) events_->on_silence(session);
  for (const TicketId& id : hopeless) close(id);
  for (SessionId session : lost) {
    lose_session(session,
                 {Code::kUnavailable, "no acknowledgement for " +
                                          std::to_string(options_.watchdog_us / 1000 * (options_.watchdog_epochs + 1)) + " ms"});
  }
}

void KvSender::Impl::restart(Ticket& ticket) {
  ++ticket.epoch;
  ++ticket.silent_epochs;
  for (TransferSender& lane : ticket.lanes) lane.restart();
  update_load(ticket);
  std::lock_guard lock(mutex_);
  ++stats_.epochs_restarted;
}

std::int64_t KvSender::Impl::next_deadline() const {
  std::int64_t deadline = std::numeric_limits<std::int64_t>::max();
  for (const auto& [id, ticket] : tickets_) {
    if (ticket.lane1_from_us != 0) deadline = std::min(deadline, ticket.lane1_from_us);
    for (const TransferSender& lane : ticket.lanes) {
      if (lane.in_flight_bytes() > 0) deadline = std::min(deadline, lane.last_progress_us() + options_.watchdog_us);
    }
  }
  return deadline;
}

}  // namespace lynx::server
