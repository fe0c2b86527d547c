#pragma once

// KvSender's inside, on the link's thread. kv_sender_sessions.cpp: peers and tickets come and go; kv_sender_push.cpp: chunks leave;
// kv_sender_acks.cpp: acknowledgements and the watchdog.

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "scheduler/push_scheduler.h"
#include "scheduler/residual_window.h"
#include "server/kv_sender.h"
#include "server/link_infos.h"
#include "server/link_mailbox.h"
#include "server/unit_slots.h"
#include "transport/ack_message.h"
#include "transport/transfer_sender.h"

namespace lynx::server {

class KvSender::Impl {
 public:
  Impl(const KvSenderOptions& options, transport::Link* link, KvSenderEvents* events, std::span<std::byte> memory);

  // Commands.
  void connect(SessionId id, const transport::LinkAddress& address);
  void disconnect(SessionId id);
  void open(const OutgoingTicket& order, std::shared_ptr<UnitSource> source);
  void add_units(const transport::TicketId& id, transport::Lane lane, const std::vector<transport::UnitKey>& units);
  void finish(const transport::TicketId& id);
  void abort(const transport::TicketId& id) { close(id); }

  // What the link tells.
  void on_message(std::span<const std::byte> header, std::span<const std::byte> payload);
  void on_sent(std::uint64_t token);
  void on_peer_lost(transport::PeerId peer, const Status& why);
  std::int64_t on_tick(std::int64_t now_us);

  // Any thread.
  LinkMailbox& mailbox() { return mailbox_; }
  KvSenderStats stats() const;
  transport::LinkInfo link_info(SessionId id) const { return infos_.of(id); }
  std::size_t memory_bytes() const { return slots_.memory_bytes(); }

 private:
  struct Session {
    transport::PeerId peer = 0;
    std::set<transport::TicketId> tickets;
    std::optional<std::uint32_t> last_grant;  ///< Sequence of the acknowledgement that the credits are from.
    std::uint64_t credit[transport::kLanes] = {};
    scheduler::ResidualWindow residual;
    std::int64_t heard_us = 0;  ///< Last authentic acknowledgement.
  };
  struct Ticket {
    OutgoingTicket order;
    std::shared_ptr<UnitSource> source;
    scheduler::PushTicket arrival = 0;
    transport::TransferSender lanes[transport::kLanes];
    std::uint32_t epoch = 0;
    int silent_epochs = 0;               ///< In a row without an answer.
    int ignored_epochs = 0;              ///< Of these, those in which the peer was heard of.
    std::int64_t rejected_since_us = 0;  ///< The first rejection behind the last acknowledged byte; 0: none.
    bool finished = false;               ///< finish() was called.
    std::int64_t lane1_from_us = 0;      ///< With residual_delay_us, once it is finished; 0 again when it is over.
    bool complete = false;               ///< The receiver has everything.
  };

  // Sessions and tickets.
  void lose_session(SessionId id, const Status& why);
  void drop_session(std::map<SessionId, Session>::iterator it);
  void close(const transport::TicketId& id);
  void remove(std::map<transport::TicketId, Ticket>::iterator it);
  void end_if_delivered(const transport::TicketId& id);

  // Sending.
  void push();
  bool push_one();
  bool prepare(Ticket& ticket, transport::Lane lane);
  void send_chunk(Ticket& ticket, transport::Lane lane, const transport::Chunk& chunk);
  static bool anchor_sent(const Ticket& ticket, const transport::UnitKey& residual);
  bool holds_lane1(const Ticket& ticket) const;
  void update_load(const Ticket& ticket);
  void drop_slot(UnitSlots::Index slot);

  // Acknowledgements.
  void apply_ack(Ticket& ticket, const transport::WireHeader& header, const transport::AckMessage& ack);
  static void apply_grant(Session& session, std::uint32_t sequence, const transport::AckMessage& ack);
  void measure(Session& session, Ticket& ticket);
  void set_windows(SessionId id, const Session& session);
  void watch();
  void restart(Ticket& ticket);
  std::int64_t next_deadline() const;
  void count_foreign();

  const KvSenderOptions options_;
  transport::Link* link_;
  KvSenderEvents* events_;
  LinkMailbox mailbox_;
  UnitSlots slots_;
  LinkInfos infos_;
  scheduler::PushScheduler scheduler_;

  std::map<SessionId, Session> sessions_;
  std::map<transport::TicketId, Ticket> tickets_;
  std::unordered_map<scheduler::PushTicket, Ticket*> by_arrival_;
  scheduler::PushTicket next_arrival_ = 0;
  std::unordered_map<std::uint64_t, UnitSlots::Index> in_link_;  ///< token → slot that the link still reads.
  std::uint64_t next_token_ = 0;
  std::int64_t now_us_ = 0;
  std::int64_t next_tick_us_ = std::numeric_limits<std::int64_t>::max();  ///< What on_tick returned last.

  mutable std::mutex mutex_;  ///< Of what other threads read.
  KvSenderStats stats_;
};

}  // namespace lynx::server
