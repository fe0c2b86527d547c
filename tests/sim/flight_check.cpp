#include "tests/sim/flight_check.h"

#include <algorithm>

#include "transport/ack_message.h"
#include "transport/crc32c.h"

namespace lynx::sim {

using namespace lynx::transport;

void FlightCheck::added(const TicketId& ticket, Lane lane, const UnitKey& unit) {
  auto it = tickets_.find(ticket);
  if (it != tickets_.end() && lane == Lane::kHigh) it->second.high_not_begun.insert(place_of(unit));
}

void FlightCheck::forget(server::SessionId session) {
  for (auto& [id, ticket] : tickets_) {
    if (ticket.session != session) continue;
    for (auto& lane : ticket.in_flight) lane.clear();
  }
}

std::uint64_t FlightCheck::in_flight(server::SessionId session, int lane) const {
  std::uint64_t sum = 0;
  for (const auto& [id, ticket] : tickets_) {
    if (ticket.session != session) continue;
    for (const auto& [sequence, piece] : ticket.in_flight[lane]) sum += piece.bytes;
  }
  return sum;
}

void FlightCheck::on_send(std::span<const std::byte> header_bytes, std::span<const std::byte> payload) {
  auto header = decode_header(header_bytes);
  if (!header.ok()) return fail_("a node sent a header that does not decode");
  if (crc32c(payload) != header->payload_crc) return fail_("a node sent a payload with a wrong CRC");
  if (header->kind != MessageKind::kData) return;
  auto it = tickets_.find(header->ticket);
  if (it == tickets_.end()) return fail_("a chunk of a ticket that is over");
  Ticket& ticket = it->second;
  if (header->epoch != ticket.epoch) {
    if (header->epoch < ticket.epoch) return fail_("the sender's epoch went back");
    ticket.epoch = header->epoch;
    for (auto& lane : ticket.in_flight) lane.clear();
    for (std::uint32_t& sequence : ticket.next_sequence) sequence = 0;
  }
  const int lane = static_cast<int>(header->lane);
  if (is_residual(header->unit.plane) && header->lane != Lane::kBackground) return fail_("a Residual on lane 0");
  if (header->sequence != ticket.next_sequence[lane]++) return fail_("sequence numbers have gaps or do not begin at 0");
  ticket.in_flight[lane].emplace(header->sequence, Piece{place_of(header->unit), header->length});
  if (header->lane == Lane::kHigh) ticket.high_not_begun.erase(place_of(header->unit));
  const std::uint64_t granted = granted_.count(ticket.session) == 0 ? limits_.first_credit : limits_.credit[lane];
  const std::uint64_t limit = std::min(limits_.window[lane], granted);
  if (in_flight(ticket.session, lane) > limit) return fail_("more in flight than the window of lane " + std::to_string(lane));
  if (header->lane == Lane::kHigh || !limits_.slots_are_plenty) return;
  for (const auto& [id, other] : tickets_) {
    if (other.session == ticket.session && !other.high_not_begun.empty())
      return fail_("lane 1 sent while lane 0 had a unit to send");
  }
}

void FlightCheck::on_deliver(std::span<const std::byte> header_bytes, std::span<const std::byte> payload) {
  auto header = decode_header(header_bytes);
  if (!header.ok() || header->kind != MessageKind::kAck || header->length != payload.size()) return;
  if (crc32c(payload) != header->payload_crc) return;
  auto ack = decode_ack(payload);
  auto it = tickets_.find(header->ticket);
  if (!ack.ok() || it == tickets_.end()) return;
  Ticket& ticket = it->second;
  ++acks_;
  granted_.insert(ticket.session);
  if (ack->phase != TicketPhase::kLive) {
    for (auto& lane : ticket.in_flight) lane.clear();
    ticket.high_not_begun.clear();
  }
  if (header->epoch != ticket.epoch) return;
  auto& lane = ticket.in_flight[static_cast<int>(header->lane)];
  for (SequenceRange range : ack->acked) lane.erase(lane.lower_bound(range.first), lane.upper_bound(range.last));
  for (std::uint32_t sequence : ack->rejected) lane.erase(sequence);
  for (const UnitKey& unit : ack->missing) {
    for (auto& each : ticket.in_flight) {
      std::erase_if(each, [&](const auto& entry) { return entry.second.place == place_of(unit); });
    }
  }
}

}  // namespace lynx::sim
