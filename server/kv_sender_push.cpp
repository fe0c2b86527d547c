#include <algorithm>

#include "server/kv_sender_impl.h"
#include "transport/crc32c.h"

namespace lynx::server {

using transport::Chunk;
using transport::kLanes;
using transport::Lane;
using transport::TransferSender;
using transport::UnitKey;
using transport::WireHeader;

namespace {

// Sent in one go; then the link has its turn, so that acknowledgements are seen while much is waiting.
constexpr std::uint64_t kBurstBytes = 512 << 10;

}  // namespace

void KvSender::Impl::push() {
  const std::uint64_t start = stats_.bytes_sent;
  while (push_one()) {
    if (stats_.bytes_sent - start < kBurstBytes) continue;
    link_->wake();
    break;
  }
  // What is in flight now needs the watchdog, which the last tick may not have known.
  const std::int64_t deadline_us = next_deadline();
  if (deadline_us >= next_tick_us_) return;
  next_tick_us_ = deadline_us;
  link_->wake();
}

// False: there is nothing to send now.
bool KvSender::Impl::push_one() {
  auto decision = scheduler_.next(now_us_);
  if (!decision) return false;
  Ticket& ticket = *by_arrival_.at(decision->ticket);
  const Lane lane = static_cast<Lane>(decision->lane);
  if (decision->new_unit && !prepare(ticket, lane)) return true;
  auto chunk = ticket.lanes[decision->lane].next_chunk(decision->max_bytes, now_us_);
  update_load(ticket);
  if (chunk) send_chunk(ticket, lane, *chunk);
  return true;
}

// Codes the lane's next unit into a slot. False: there is no slot, or the unit cannot be read; the scheduler knows.
bool KvSender::Impl::prepare(Ticket& ticket, Lane lane) {
  TransferSender& transfer = ticket.lanes[static_cast<int>(lane)];
  const UnitKey unit = *transfer.unit_to_prepare();
  auto slot = slots_.take({ticket.order.session, lane});
  if (!slot) {
    scheduler_.hold_new_units(ticket.order.session, static_cast<int>(lane));
    return false;
  }
  const UnitSource::Coded coded = ticket.source->read(unit, slots_.bytes(*slot).first(ticket.order.unit_bytes_max));
  if (coded.bytes == 0 || coded.bytes > ticket.order.unit_bytes_max) {
    drop_slot(*slot);
    close(ticket.order.ticket);
    return false;
  }
  transfer.prepared({coded.plane, coded.bytes, *slot});
  return true;
}

void KvSender::Impl::send_chunk(Ticket& ticket, Lane lane, const Chunk& chunk) {
  const auto payload = slots_.bytes(chunk.memory).subspan(chunk.offset, chunk.length);
  WireHeader header;
  header.lane = lane;
  header.ticket = ticket.order.ticket;
  header.secret = ticket.order.secret;
  header.epoch = ticket.epoch;
  header.sequence = chunk.sequence;
  header.unit = chunk.unit;
  header.unit_bytes = chunk.unit_bytes;
  header.offset = chunk.offset;
  header.length = chunk.length;
  header.payload_crc = transport::crc32c(payload);
  {
    std::lock_guard lock(mutex_);
    stats_.bytes_sent += chunk.length;
    if (chunk.resent) ++stats_.chunks_resent;
  }
  if (lane == Lane::kHigh) sessions_.at(ticket.order.session).residual.on_anchor_sent(now_us_);
  const std::uint64_t token = next_token_++;
  slots_.hold(chunk.memory);
  in_link_.emplace(token, chunk.memory);
  // Last: the link may answer at once, and the ticket may be gone then.
  link_->send(sessions_.at(ticket.order.session).peer, lane, encode_header(header), payload, token);
}

void KvSender::Impl::on_sent(std::uint64_t token) {
  auto it = in_link_.find(token);
  if (it == in_link_.end()) return;
  const UnitSlots::Index slot = it->second;
  in_link_.erase(it);
  drop_slot(slot);
}

void KvSender::Impl::drop_slot(UnitSlots::Index slot) {
  // The tick goes on with what waited for memory.
  if (slots_.drop(slot) && scheduler_.release_held()) link_->wake();
}

bool KvSender::Impl::holds_lane1(const Ticket& ticket) const {
  return options_.residual_delay_us > 0 && (!ticket.finished || now_us_ < ticket.lane1_from_us);
}

bool KvSender::Impl::anchor_sent(const Ticket& ticket, const UnitKey& residual) {
  transport::UnitPlace anchor = place_of(residual);
  anchor.residual = false;
  return ticket.lanes[0].has_sent(anchor);
}

// A Residual is not begun before its Anchor: the receiver would not take it, so it would keep a slot from that very Anchor; and
// while it waits its age does not count, since old Residuals keep Anchors back.
void KvSender::Impl::update_load(const Ticket& ticket) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const TransferSender& transfer = ticket.lanes[lane];
    scheduler::PushLoad load;
    load.peer = ticket.order.session;
    load.ready_bytes = transfer.ready_bytes();
    const std::optional<UnitKey> next = transfer.unit_to_prepare();
    const bool early = next && transport::is_residual(next->plane) && (!anchor_sent(ticket, *next) || holds_lane1(ticket));
    load.new_unit_bytes = next && !early ? ticket.order.unit_bytes_max : 0;
    load.in_flight_bytes = transfer.in_flight_bytes();
    load.begun_bytes = transfer.begun_bytes();
    load.remaining_bytes = transfer.begun_bytes() + transfer.units_to_code() * std::uint64_t{ticket.order.unit_bytes_max};
    if (lane == 0) {
      const std::uint64_t expected = ticket.order.expected_bytes;
      const std::uint64_t acked = transfer.acked_bytes();
      if (!ticket.finished) load.remaining_bytes = std::max(load.remaining_bytes, expected - std::min(expected, acked));
      load.begun = transfer.begun();
    } else if (const auto oldest_us = transfer.oldest_us(); oldest_us && !(early && load.begun_bytes == 0)) {
      load.oldest_us = *oldest_us;
    }
    scheduler_.set_load(ticket.arrival, lane, load);
  }
}

}  // namespace lynx::server
