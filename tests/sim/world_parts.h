#pragma once

// The parts of TransferWorld.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/transfer_world.h"

namespace lynx::sim {

struct TransferWorld::Prefill final : server::KvSenderEvents {
  TransferWorld* world = nullptr;
  std::size_t index = 0;
  bool alive = true;
  NodeId node = 0;
  transport::Link* link = nullptr;
  std::unique_ptr<server::KvSender> sender;
  std::uint64_t epochs_seen = 0;

  void on_connected(server::SessionId session, const Status& status) override { world->session_connected(session, status); }
  void on_session_lost(server::SessionId session, const Status&) override { world->session_lost(session, false); }
  void on_silence(server::SessionId) override { ++world->coverage_->silences; }
  void on_delivered(const transport::TicketId& ticket) override { world->over_at_sender(world->ticket_of(ticket), true); }
  void on_closed(const transport::TicketId& ticket) override { world->over_at_sender(world->ticket_of(ticket), false); }
};

/// Landing memory of one request, as the decode node's KV cache would give it: used again by another ticket afterwards.
struct TransferWorld::Region {
  std::optional<transport::TicketId> owner;
  std::map<transport::UnitPlace, std::vector<std::byte>> units;
  int uses = 0;
};

struct TransferWorld::Decode final : server::KvReceiverEvents {
  TransferWorld* world = nullptr;
  std::size_t index = 0;
  bool alive = true;
  NodeId node = 0;
  std::uint64_t boot = 0;
  transport::Link* link = nullptr;
  std::unique_ptr<server::KvReceiver> receiver;
  Region regions[3];

  void on_connected(server::SessionId session, const Status& status) override { world->session_connected(session, status); }
  void on_session_lost(server::SessionId session, const Status&) override { world->session_lost(session, true); }
  void on_complete(const transport::TicketId& ticket, const transport::TransferBytes&) override {
    world->over_at_receiver(world->ticket_of(ticket), true);
  }
  void on_anchored(const transport::TicketId& ticket) override;
  void on_failed(const transport::TicketId& ticket, const Status&) override;
  void on_retired(const transport::TicketId& ticket) override;
};

struct TransferWorld::Session {
  Prefill* prefill = nullptr;
  Decode* decode = nullptr;
  int connected = 0;  ///< Ends.
  bool lost = false;
};

struct TransferWorld::Ticket {
  struct Unit {
    transport::UnitKey key;
    transport::Lane lane;
  };
  server::SessionId session = 0;
  Prefill* prefill = nullptr;
  Decode* decode = nullptr;
  transport::TransferExpectation expectation;
  std::uint64_t seed = 0;
  std::vector<Unit> units;                              ///< In the order in which they are computed.
  std::size_t poisoned = static_cast<std::size_t>(-1);  ///< Index of a unit that does not decode.
  Region* region = nullptr;
  std::size_t first_left = 0;      ///< Units of the first step not placed yet.
  std::size_t residuals_left = 0;  ///< And of the second.
  bool awaited_residuals = false;  ///< The first step was over with Residuals missing.
  bool anchored = false;           ///< So said its receiver.
  bool aborted = false;
  bool harmed = false;  ///< Its session was lost or a node died.
  bool opened = false;
  bool retiring = false;
  bool receiver_over = false;
  bool sender_over = false;
  bool complete = false;
  bool delivered = false;
};

}  // namespace lynx::sim
