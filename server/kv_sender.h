#pragma once

// The prefill node's end of the data plane: sends the units of all live tickets, in the order that scheduler/push_scheduler.h says,
// within what receivers granted, until they are acknowledged. Works over any Link, so that the simulator runs it too.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "transport/link.h"
#include "transport/wire_header.h"

namespace lynx::server {

/// Names one decode node's session; given out by the owner, to no two of them.
using SessionId = std::uint64_t;

/// Where a ticket's units come from. Called on the link's thread.
class UnitSource {
 public:
  virtual ~UnitSource() = default;
  /// Puts the unit's bytes into `out` (unit_bytes_max of the ticket) and says how many (0: it cannot be read, the ticket is
  /// closed), and in which plane they are (a plane that does not pay falls back to raw). Once per unit, just before its first chunk
  /// goes.
  struct Coded {
    transport::Plane plane;
    std::uint32_t bytes;
  };
  virtual Coded read(const transport::UnitKey& unit, std::span<std::byte> out) = 0;
};

struct OutgoingTicket {
  SessionId session = 0;
  transport::TicketId ticket;
  transport::TicketSecret secret{};
  std::uint32_t unit_bytes_max = 0;  ///< At most the sender's own.
  std::uint64_t expected_bytes = 0;  ///< About what lane 0 will carry: orders tickets before their units are known.
};

/// Called on the link's thread; must not block.
class KvSenderEvents {
 public:
  virtual ~KvSenderEvents() = default;
  /// connect() is done: OK, or why this peer cannot be reached.
  virtual void on_connected(SessionId session, const Status& status) = 0;
  /// The data plane to this peer broke. Its tickets are closed (on_closed follows for each).
  virtual void on_session_lost(SessionId session, const Status& why) = 0;
  /// The watchdog fired: nothing was acknowledged for watchdog_us; what is unacknowledged is sent again.
  virtual void on_silence(SessionId /*session*/) {}
  /// Every unit of a finished ticket is acknowledged. Its source is not used any more.
  virtual void on_delivered(const transport::TicketId& ticket) = 0;
  /// The ticket's source is not used any more: after abort(), disconnect() or the loss of its session, or because its receiver
  /// wants nothing more of it or did not answer for it for too long, or it could not be opened. Once per open() that
  /// does not end with on_delivered.
  virtual void on_closed(const transport::TicketId& ticket) = 0;
};

struct KvSenderOptions {
  std::uint64_t high_window_bytes = std::uint64_t{4} << 20;  ///< Most unacknowledged bytes of lane 0 to one peer, if granted.
  std::uint64_t background_window_bytes = std::uint64_t{32} << 20;  ///< Same for lane 1.
  /// Lane 1's window follows the path (scheduler/residual_window.h), up to background_window_bytes; else it is that always.
  bool adaptive_window = true;
  std::int64_t residual_age_us = 10'000'000;  ///< While lane 1 has a unit older than that, new tickets to its peer wait.
  std::int64_t residual_delay_us = 0;         ///< For tests: a ticket's lane 1 begins so long after its finish().
  std::uint32_t chunk_bytes = 64 << 10;       ///< Most payload of one message.
  std::int64_t watchdog_us = 3'000'000;       ///< No acknowledgement for so long with bytes in flight: a new epoch.
  /// So many epochs of a ticket in a row without an answer (acknowledged or rejected): the session is lost, if nothing else was
  /// heard of it for as long; or, if it was heard of in so many of them, the ticket is closed.
  int watchdog_epochs = 3;
  std::int64_t rejected_us = 60'000'000;  ///< Rejections for so long, and no byte acknowledged: the ticket is closed.
  std::uint64_t first_credit_bytes = std::uint64_t{64} << 10;  ///< For each lane until the receiver's first grant.
  std::uint64_t pool_bytes = std::uint64_t{16} << 20;          ///< Registered memory for units being sent.
  std::uint32_t unit_bytes_max = 0;                            ///< The largest unit: the pool is cut into slots of this size.
};

struct KvSenderStats {
  std::uint64_t bytes_sent = 0;  ///< Payload, resent chunks included.
  std::uint64_t bytes_acknowledged = 0;
  std::uint64_t chunks_resent = 0;
  std::uint64_t epochs_restarted = 0;
  std::uint64_t foreign_messages = 0;  ///< Dropped: malformed, unknown ticket or secret.
  int live_tickets = 0;
  std::size_t slots = 0;  ///< Of unit_bytes_max each.
  std::size_t slots_in_use = 0;
};

/// All commands: any thread; they are carried out on the link's thread, in order. Those for tickets and sessions that are not there
/// (any more) do nothing.
class KvSender final : public transport::LinkHandler {
 public:
  /// `link` and `events` are not owned and outlive the sender; start the link with this handler, and stop it before the sender
  /// goes. RESOURCE_EXHAUSTED: no memory. INVALID_ARGUMENT: a pool that does not hold two units, or empty chunks.
  static Result<std::unique_ptr<KvSender>> create(const KvSenderOptions& options, transport::Link* link, KvSenderEvents* events);
  ~KvSender() override;

  void connect(SessionId session, transport::LinkAddress address);
  void disconnect(SessionId session);  ///< on_closed for each of its tickets; no on_session_lost.
  /// `ticket` is not live already: it is ignored if it is.
  void open(const OutgoingTicket& ticket, std::shared_ptr<UnitSource> source);
  /// Units whose bytes can be read from now on, on this lane. They go in this order.
  void add_units(const transport::TicketId& ticket, transport::Lane lane, std::vector<transport::UnitKey> units);
  void finish(const transport::TicketId& ticket);  ///< No more units will come.
  void abort(const transport::TicketId& ticket);

  KvSenderStats stats() const;                             ///< Any thread.
  transport::LinkInfo link_info(SessionId session) const;  ///< Any thread; as last seen (at connect, then once a second of use).
  std::size_t memory_bytes() const;                        ///< Taken from the link. Any thread.

  // LinkHandler
  void on_message(transport::Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) override;
  void on_sent(std::uint64_t token, const Status& status) override;
  void on_peer_lost(transport::PeerId peer, const Status& why) override;
  std::int64_t on_tick(std::int64_t now_us) override;

 private:
  class Impl;
  explicit KvSender(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
