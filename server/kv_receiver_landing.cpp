#include <algorithm>
#include <cstring>
#include <utility>

#include "server/kv_receiver_impl.h"
#include "transport/crc32c.h"

namespace lynx::server {

using transport::Lane;
using transport::MessageKind;
using transport::TicketPhase;
using transport::Verdict;
using transport::WireHeader;

namespace {

// Rejections kept for a sender that takes no acknowledgements; the rest is asked for again, or resent by its watchdog.
constexpr std::size_t kRejectedMax = 1024;

}  // namespace

void KvReceiver::Impl::count(std::uint64_t KvReceiverStats::*counter, std::uint64_t by) {
  std::lock_guard lock(mutex_);
  stats_.*counter += by;
}

void KvReceiver::Impl::on_message(Lane lane, std::span<const std::byte> header_bytes, std::span<const std::byte> payload) {
  now_us_ = link_->now_us();
  mailbox_.drain();  // expect() came before the first chunk could.
  auto header = transport::decode_header(header_bytes);
  if (!header.ok() || header->kind != MessageKind::kData || header->lane != lane || header->length != payload.size()) {
    return count(&KvReceiverStats::chunks_foreign);
  }
  auto it = tickets_.find(header->ticket);
  if (it == tickets_.end()) {
    on_past_chunk(*header);
  } else if (sessions_.count(it->second.session) == 0) {
    count(&KvReceiverStats::chunks_stale);
  } else {
    on_live_chunk(it, *header, payload);
  }
}

void KvReceiver::Impl::on_past_chunk(const WireHeader& header) {
  auto it = past_.find(header.ticket);
  if (it == past_.end() || !transport::equal_secrets(it->second.secret, header.secret))
    return count(&KvReceiverStats::chunks_foreign);
  count(&KvReceiverStats::chunks_stale);
  if (sessions_.count(it->second.session) == 0) return;
  it->second.epoch = std::max(it->second.epoch, header.epoch);
  note_chunk(it->second.session, header);
}

void KvReceiver::Impl::on_live_chunk(Tickets::iterator it, const WireHeader& header, std::span<const std::byte> payload) {
  Ticket& ticket = it->second;
  const SessionId session = ticket.session;
  const std::uint32_t epoch = ticket.transfer.epoch();
  const Verdict verdict = ticket.transfer.judge(header);
  if (ticket.transfer.epoch() != epoch) ticket.forget_rejected();
  switch (verdict) {
    case Verdict::kForeign:
    case Verdict::kMalformed: return count(&KvReceiverStats::chunks_foreign);
    case Verdict::kStaleEpoch: return count(&KvReceiverStats::chunks_stale);
    case Verdict::kDuplicate: count(&KvReceiverStats::chunks_duplicate); break;
    case Verdict::kEarly: keep_unplaced(ticket, header); break;
    case Verdict::kPlace: {
      if (!ticket.begun) ticket.news_us = now_us_;
      ticket.begun = true;
      if (transport::crc32c(payload) == header.payload_crc) {
        land(it, header, payload);
        break;
      }
      count(&KvReceiverStats::chunks_damaged);
      auto& damaged = ticket.damaged[static_cast<int>(header.lane)];
      if (damaged.size() < kRejectedMax) damaged.push_back(header.sequence);
      break;
    }
  }
  if (tickets_.count(header.ticket) != 0) note_chunk(session, header);  // end() has told the sender already.
}

// The chunk is sent again, a little later.
void KvReceiver::Impl::keep_unplaced(Ticket& ticket, const WireHeader& header) {
  count(&KvReceiverStats::chunks_unplaced);
  auto& unplaced = ticket.unplaced[static_cast<int>(header.lane)];
  if (ticket.unplaced[0].empty() && ticket.unplaced[1].empty()) ticket.unplaced_us = now_us_;
  if (unplaced.size() < kRejectedMax) unplaced.push_back(header.sequence);
}

// May end the ticket.
void KvReceiver::Impl::land(Tickets::iterator it, const WireHeader& header, std::span<const std::byte> payload) {
  Ticket& ticket = it->second;
  std::span<const std::byte> unit = payload;
  if (header.length != header.unit_bytes) {  // Others come as one chunk and need no memory of ours.
    auto slot = landing_slot(ticket, header);
    if (!slot) return keep_unplaced(ticket, header);
    std::memcpy(slots_.bytes(*slot).data() + header.offset, payload.data(), payload.size());
    unit = slots_.bytes(*slot).first(header.unit_bytes);
  }
  const transport::TransferBytes before = ticket.transfer.bytes_placed();
  const bool unit_complete = ticket.transfer.placed(header);
  const transport::TransferBytes& after = ticket.transfer.bytes_placed();
  count(&KvReceiverStats::bytes_placed, after.units - before.units);
  count(&KvReceiverStats::residual_bytes_placed, after.residuals - before.residuals);
  ticket.news_us = now_us_;
  if (unit_complete) place(it, header, unit);
}

// The slot in which this unit's chunks gather; nullopt: there is none for this session and lane now.
std::optional<UnitSlots::Index> KvReceiver::Impl::landing_slot(Ticket& ticket, const WireHeader& header) {
  const transport::UnitPlace place = place_of(header.unit);
  auto found = ticket.landing.find(place);
  if (found != ticket.landing.end()) return found->second;
  auto slot = slots_.take({ticket.session, header.lane});
  if (slot) ticket.landing.emplace(place, *slot);
  return slot;
}

// Hands a complete unit to the sink, and ends the ticket if it was the last one, or does not decode.
void KvReceiver::Impl::place(Tickets::iterator it, const WireHeader& header, std::span<const std::byte> unit) {
  Ticket& ticket = it->second;
  const Status placed = ticket.sink->place(header.unit, unit);
  auto landed = ticket.landing.find(place_of(header.unit));
  if (landed != ticket.landing.end()) {
    slots_.drop(landed->second);
    ticket.landing.erase(landed);
  }
  if (!placed.ok()) {
    end(it, TicketPhase::kRetired);
    events_->on_failed(header.ticket, placed);
  } else if (ticket.transfer.complete()) {
    const transport::TransferBytes bytes = ticket.transfer.bytes_placed();
    end(it, TicketPhase::kComplete);
    events_->on_complete(header.ticket, bytes);
  } else if (ticket.transfer.awaits_residuals() && !std::exchange(ticket.anchored, true)) {
    events_->on_anchored(header.ticket);
  }
}

}  // namespace lynx::server
