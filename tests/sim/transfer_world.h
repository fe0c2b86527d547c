#pragma once

// Prefill and decode nodes running the real KvSender and KvReceiver over a simulated network, and the rules that must hold.
// Whoever owns the tickets is modelled here in a few lines (a control plane that never lies): what the daemons do with them has
// tests of its own.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/flight_check.h"
#include "tests/sim/world_plan.h"

namespace lynx::sim {

/// What a set of runs has seen, so that a test can require that nothing interesting was missed.
struct WorldCoverage {
  std::uint64_t completed = 0, aborted = 0, failed = 0, sessions_lost = 0, regions_reused = 0;
  std::uint64_t damaged = 0, duplicate = 0, stale = 0, foreign = 0, unplaced = 0, asked_again = 0, epochs = 0, resent = 0;
  std::uint64_t silences = 0, strangers = 0;
  std::uint64_t anchored = 0, anchored_not_complete = 0, early = 0, residuals_before_anchored = 0;
};

class TransferWorld final : public SimObserver {
 public:
  /// `two_steps`: units of some tickets have Residuals.
  TransferWorld(std::uint32_t seed, bool two_steps, WorldCoverage* coverage);
  ~TransferWorld() override;

  /// Runs until all tickets are over and nothing moves any more; "" or the first broken rule.
  std::string run();

  void on_send(NodeId from, NodeId to, std::span<const std::byte> header, std::span<const std::byte> payload) override;
  void on_deliver(NodeId from, NodeId to, std::span<const std::byte> header, std::span<const std::byte> payload) override;

 private:
  struct Prefill;
  struct Decode;
  struct Session;
  struct Region;
  struct Ticket;
  class Source;
  class Sink;

  void fail(const std::string& what);
  bool settled() const;
  void check_rest();
  void count(const Prefill& node);
  void count(const Decode& node);
  void count_early(const Decode& node, std::span<const std::byte> header);

  // Nodes and sessions (world_nodes.cpp).
  void start_prefill(std::size_t index, NodeId successor_of);
  void start_decode(std::size_t index, NodeId successor_of);
  void kill_prefill(std::size_t index);
  void kill_decode(std::size_t index);
  void connect(Prefill* prefill, Decode* decode);
  void session_connected(server::SessionId id, const Status& status);
  void session_lost(server::SessionId id, bool tell_sender);
  void plan_troubles();
  void stranger();

  // Tickets (world_tickets.cpp).
  void arrive();
  void draw_units(Ticket& ticket);
  void open_at_sender(Ticket& ticket);
  void feed(Ticket& ticket, std::size_t from);
  void abort(Ticket& ticket);
  void over_at_receiver(Ticket& ticket, bool complete);
  void over_at_sender(Ticket& ticket, bool delivered);
  void release_region(Ticket& ticket);
  Ticket& ticket_of(const transport::TicketId& id) { return *tickets_.at(id); }

  Draw draw_;
  WorldPlan plan_;
  WorldCoverage* coverage_;
  SimClock clock_;
  FlightCheck flight_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Prefill>> prefills_;       ///< [index] the living one.
  std::vector<std::unique_ptr<Decode>> decodes_;         ///< [index] the living one.
  std::vector<std::unique_ptr<Prefill>> dead_prefills_;  ///< Kept: late events name them.
  std::vector<std::unique_ptr<Decode>> dead_decodes_;
  std::map<server::SessionId, std::unique_ptr<Session>> sessions_;
  server::SessionId next_session_ = 1;
  std::map<transport::TicketId, std::unique_ptr<Ticket>> tickets_;
  std::set<transport::TicketId> live_;  ///< Not over at both ends.
  int to_arrive_ = 0;
  std::uint64_t next_ticket_ = 1;
  std::uint64_t next_boot_ = 1;
  std::string failure_;
};

}  // namespace lynx::sim
