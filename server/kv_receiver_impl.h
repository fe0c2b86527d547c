#pragma once

// KvReceiver's inside, on the link's thread. kv_receiver_sessions.cpp: peers and tickets come and go; kv_receiver_landing.cpp:
// chunks are judged and land; kv_receiver_acks.cpp: what is told to the senders, and when.

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/kv_receiver.h"
#include "server/link_infos.h"
#include "server/link_mailbox.h"
#include "server/unit_slots.h"
#include "transport/ack_message.h"

namespace lynx::server {

class KvReceiver::Impl {
 public:
  Impl(const KvReceiverOptions& options, transport::Link* link, KvReceiverEvents* events, std::span<std::byte> memory);

  // Commands.
  void connect(SessionId id, const transport::LinkAddress& address);
  void disconnect(SessionId id);
  void expect(SessionId session, transport::TransferExpectation expectation, std::shared_ptr<UnitSink> sink);
  void retire(const transport::TicketId& id);

  // What the link tells.
  void on_message(transport::Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload);
  void on_sent(std::uint64_t token);
  void on_peer_lost(transport::PeerId peer, const Status& why);
  std::int64_t on_tick(std::int64_t now_us);

  // Any thread.
  LinkMailbox& mailbox() { return mailbox_; }
  KvReceiverStats stats() const;
  std::uint64_t chunks_heard(SessionId id) const;
  transport::LinkInfo link_info(SessionId id) const { return infos_.of(id); }
  std::size_t memory_bytes() const { return slots_.memory_bytes(); }

 private:
  struct Session {
    transport::PeerId peer = 0;
    std::uint32_t next_ack = 0;
    int acks_in_link = 0;
    std::set<transport::TicketId> to_tell;  ///< Tickets, live or past, with something to acknowledge.
    int chunks = 0;                         ///< Since the last flush.
    std::uint64_t bytes[transport::kLanes] = {};
    std::int64_t flush_us = std::numeric_limits<std::int64_t>::max();
  };
  struct Ticket {
    Ticket(SessionId of, const transport::TransferExpectation& expected, std::shared_ptr<UnitSink> to)
        : session(of), expectation(expected), transfer(expected), sink(std::move(to)) {}
    SessionId session;
    transport::TransferExpectation expectation;
    transport::TransferReceiver transfer;
    std::shared_ptr<UnitSink> sink;
    std::map<transport::UnitPlace, UnitSlots::Index> landing;  ///< Units of which some chunks are there.
    std::vector<std::uint32_t> damaged[transport::kLanes];     ///< Sequences to reject now.
    std::vector<std::uint32_t> unplaced[transport::kLanes];    ///< Sequences to reject a little later.
    std::int64_t unplaced_us = 0;                              ///< When the first of them came.
    bool begun = false;
    bool anchored = false;     ///< on_anchored was told.
    std::int64_t news_us = 0;  ///< When something new was placed, or asked for.

    /// A new epoch numbers from 0: what was to be rejected would name other chunks.
    void forget_rejected() {
      for (int lane = 0; lane < transport::kLanes; ++lane) {
        damaged[lane].clear();
        unplaced[lane].clear();
      }
    }
  };
  /// A ticket that is over. Its sender may not know it yet: chunks that still come are answered, not placed.
  struct Past {
    SessionId session = 0;
    transport::TicketSecret secret{};
    std::uint32_t epoch = 0;
    transport::TicketPhase phase = transport::TicketPhase::kRetired;
  };
  using Tickets = std::map<transport::TicketId, Ticket>;

  // Sessions and tickets.
  void drop_session(std::map<SessionId, Session>::iterator it);
  void free_landing(Ticket& ticket);
  void end(Tickets::iterator it, transport::TicketPhase phase);

  // Landing.
  void on_past_chunk(const transport::WireHeader& header);
  void on_live_chunk(Tickets::iterator it, const transport::WireHeader& header, std::span<const std::byte> payload);
  void keep_unplaced(Ticket& ticket, const transport::WireHeader& header);
  void land(Tickets::iterator it, const transport::WireHeader& header, std::span<const std::byte> payload);
  std::optional<UnitSlots::Index> landing_slot(Ticket& ticket, const transport::WireHeader& header);
  void place(Tickets::iterator it, const transport::WireHeader& header, std::span<const std::byte> unit);
  void count(std::uint64_t KvReceiverStats::*counter, std::uint64_t by = 1);

  // Acknowledging.
  void note_chunk(SessionId id, const transport::WireHeader& header);
  void flush(Session& session);
  bool tell_live(Session& session, const transport::TicketId& id, Ticket& ticket);
  bool tell_past(Session& session, const transport::TicketId& id, const Past& past);
  void send_ack(SessionId id, Session& session, transport::WireHeader header, transport::AckMessage ack);
  void reject_unplaced(const transport::TicketId& id, Ticket& ticket);
  void ask_again(const transport::TicketId& id, Ticket& ticket);
  std::int64_t next_deadline() const;
  void arm(std::int64_t time_us);

  const KvReceiverOptions options_;
  transport::Link* link_;
  KvReceiverEvents* events_;
  LinkMailbox mailbox_;
  UnitSlots slots_;
  LinkInfos infos_;

  struct AckInLink {
    SessionId session = 0;
    std::vector<std::byte> payload;
  };
  std::map<SessionId, Session> sessions_;
  Tickets tickets_;
  std::map<transport::TicketId, Past> past_;
  std::deque<transport::TicketId> past_order_;            ///< Oldest first: a bounded number is remembered.
  std::unordered_map<std::uint64_t, AckInLink> in_link_;  ///< By token; the link reads them until on_sent().
  std::uint64_t next_token_ = 0;
  std::int64_t now_us_ = 0;
  std::int64_t next_tick_us_ = std::numeric_limits<std::int64_t>::max();  ///< What on_tick returned last.

  mutable std::mutex mutex_;  ///< Of what other threads read.
  KvReceiverStats stats_;
  std::map<SessionId, std::uint64_t> heard_;
};

}  // namespace lynx::server
