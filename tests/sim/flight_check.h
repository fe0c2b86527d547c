#pragma once

// Watches the wire: what is sent and not acknowledged stays within the windows, and no background chunk leaves while a unit of the
// same session's high lane has not been begun: an Anchor of any request goes before the Residuals of all. Knows less than the
// sender: whatever it cannot be sure of it lets pass.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "server/kv_sender.h"
#include "tests/sim/sim_network.h"

namespace lynx::sim {

struct FlightLimits {
  std::uint64_t window[transport::kLanes] = {};  ///< The sender's own.
  std::uint64_t credit[transport::kLanes] = {};  ///< The receiver's.
  std::uint64_t first_credit = 0;
  bool slots_are_plenty = false;  ///< Else lane 0 may have to wait for memory, and lane 1 goes on.
};

class FlightCheck {
 public:
  FlightCheck(const FlightLimits& limits, std::function<void(const std::string&)> fail) : limits_(limits), fail_(std::move(fail)) {}

  void opened(const transport::TicketId& ticket, server::SessionId session) { tickets_[ticket].session = session; }
  void added(const transport::TicketId& ticket, transport::Lane lane, const transport::UnitKey& unit);
  void over(const transport::TicketId& ticket) { tickets_.erase(ticket); }  ///< As its sender told.
  /// A sender began a new epoch of one of this session's tickets: nothing is known about what is in flight there.
  void forget(server::SessionId session);

  void on_send(std::span<const std::byte> header, std::span<const std::byte> payload);
  void on_deliver(std::span<const std::byte> header, std::span<const std::byte> payload);

  int acks_seen() const { return acks_; }

 private:
  struct Piece {
    transport::UnitPlace place;
    std::uint64_t bytes;
  };
  struct Ticket {
    server::SessionId session = 0;
    std::uint32_t epoch = 0;
    std::uint32_t next_sequence[transport::kLanes] = {};
    std::map<std::uint32_t, Piece> in_flight[transport::kLanes];
    std::set<transport::UnitPlace> high_not_begun;
  };

  std::uint64_t in_flight(server::SessionId session, int lane) const;

  FlightLimits limits_;
  std::function<void(const std::string&)> fail_;
  std::map<transport::TicketId, Ticket> tickets_;
  std::set<server::SessionId> granted_;
  int acks_ = 0;
};

}  // namespace lynx::sim
