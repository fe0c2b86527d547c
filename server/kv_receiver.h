#pragma once

// The decode node's end of the data plane: judges every chunk by its live ticket, checks it, lands it, acknowledges it, grants
// credits, and asks again for what is missing. Nothing reaches a ticket's sink after on_retired. Works over any Link.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "server/kv_sender.h"
#include "transport/link.h"
#include "transport/transfer_receiver.h"

namespace lynx::server {

/// Where a ticket's units go. Called on the link's thread.
class UnitSink {
 public:
  virtual ~UnitSink() = default;
  /// All bytes of a unit, each chunk's CRC checked; they are valid during the call only. DATA_LOSS: they do not decode (a fault of
  /// the sender's, not of the network): the ticket fails.
  virtual Status place(const transport::UnitKey& unit, std::span<const std::byte> bytes) = 0;
};

/// Called on the link's thread; must not block.
class KvReceiverEvents {
 public:
  virtual ~KvReceiverEvents() = default;
  /// RESOURCE_EXHAUSTED: landing memory has no slot for each lane of one session more.
  virtual void on_connected(SessionId session, const Status& status) = 0;
  virtual void on_session_lost(SessionId session, const Status& why) = 0;
  /// Every expected unit is placed; the ticket is retired already, and its sink not called any more.
  virtual void on_complete(const transport::TicketId& ticket, const transport::TransferBytes& bytes) = 0;
  /// All units are placed, Residuals are missing. Once, and only where Residuals were missing at that moment.
  virtual void on_anchored(const transport::TicketId& /*ticket*/) {}
  /// A unit did not decode, or the expectation cannot be met. The ticket is retired already.
  virtual void on_failed(const transport::TicketId& ticket, const Status& why) = 0;
  /// Answers every retire(): the sink is not called any more (nor was it after on_complete or on_failed).
  virtual void on_retired(const transport::TicketId& ticket) = 0;
};

struct KvReceiverOptions {
  std::uint64_t high_credit_bytes = std::uint64_t{4} << 20;         ///< Granted to each session for lane 0: bounds eager data.
  std::uint64_t background_credit_bytes = std::uint64_t{32} << 20;  ///< Same for lane 1, whose window its sender keeps small.
  std::int64_t ask_again_us = 1'000'000;  ///< Nothing new for a ticket that has begun: its missing units are asked for again.
  std::int64_t ack_delay_us = 1'000;      ///< Chunks of so long are acknowledged together, unless there are many.
  std::uint64_t pool_bytes = std::uint64_t{16} << 20;  ///< Memory for units that come in several chunks.
  std::uint32_t unit_bytes_max = 0;
};

struct KvReceiverStats {
  std::uint64_t bytes_placed = 0;  ///< Of live and past tickets, Residuals apart; each byte once.
  std::uint64_t residual_bytes_placed = 0;
  std::uint64_t chunks_damaged = 0;  ///< Payload CRC.
  std::uint64_t chunks_duplicate = 0;
  std::uint64_t chunks_stale = 0;     ///< Of an earlier epoch, or of a ticket that was retired.
  std::uint64_t chunks_foreign = 0;   ///< Malformed, or no live ticket's.
  std::uint64_t chunks_unplaced = 0;  ///< No landing memory was free, or a Residual came before its Anchor: sent again.
  std::uint64_t asked_again = 0;      ///< Units; among them such as the sender has not computed yet.
  std::uint64_t acks_sent = 0;        ///< Messages.
  int live_tickets = 0;
  std::size_t slots = 0;  ///< Of unit_bytes_max each.
  std::size_t slots_in_use = 0;
};

/// All commands: any thread; carried out on the link's thread, in order. Those for tickets and sessions that are not there (any
/// more) do nothing, but retire() is answered.
class KvReceiver final : public transport::LinkHandler {
 public:
  /// `link` and `events` are not owned and outlive the receiver; start the link with this handler, and stop it before the receiver
  /// goes. RESOURCE_EXHAUSTED: no memory. INVALID_ARGUMENT: a pool that does not hold two units.
  static Result<std::unique_ptr<KvReceiver>> create(const KvReceiverOptions& options, transport::Link* link,
                                                    KvReceiverEvents* events);
  ~KvReceiver() override;

  void connect(SessionId session, transport::LinkAddress address);
  void disconnect(SessionId session);  ///< Its tickets stay until retired; nothing more will come for them.
  /// The ticket's chunks are taken from now on; call it before the sender can know of the ticket. Ignored if it is live already.
  /// on_failed answers an expectation of no units, or of larger ones than unit_bytes_max.
  void expect(SessionId session, transport::TransferExpectation expectation, std::shared_ptr<UnitSink> sink);
  void retire(const transport::TicketId& ticket);

  KvReceiverStats stats() const;
  /// Chunks of known tickets that came in this session so far; 0 for an unknown one. Any thread.
  std::uint64_t chunks_heard(SessionId session) const;
  transport::LinkInfo link_info(SessionId session) const;  ///< As KvSender::link_info.
  std::size_t memory_bytes() const;                        ///< Taken from the link. Any thread.

  // LinkHandler
  void on_message(transport::Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) override;
  void on_sent(std::uint64_t token, const Status& status) override;
  void on_peer_lost(transport::PeerId peer, const Status& why) override;
  std::int64_t on_tick(std::int64_t now_us) override;

 private:
  class Impl;
  explicit KvReceiver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
