#include <algorithm>
#include <iterator>
#include <utility>

#include "server/kv_receiver_impl.h"
#include "transport/crc32c.h"

namespace lynx::server {

using transport::AckMessage;
using transport::kAckListMax;
using transport::kLanes;
using transport::Lane;
using transport::MessageKind;
using transport::TicketId;
using transport::WireHeader;

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// So many chunks, or a quarter of a lane's credit, are acknowledged without waiting for more; of lane 1 so many bytes too, since
// its window is small and a late acknowledgement is a piece of it that lies idle.
constexpr int kAckChunks = 32;
constexpr std::uint64_t kAckCreditShare = 4;
constexpr std::uint64_t kAckBackgroundBytes = 64 << 10;
// Most acknowledgements that one session may have in the link: a peer that takes none costs no more memory.
constexpr int kAcksInLinkMax = 8;
// A chunk without landing memory is sent again after a while, not at once: others complete their units meanwhile.
constexpr std::int64_t kUnplacedUs = 20'000;

std::uint32_t grant(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

std::vector<std::uint32_t> take_front(std::vector<std::uint32_t>& list) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(list.size(), kAckListMax));
  std::vector<std::uint32_t> taken(list.begin(), list.begin() + count);
  list.erase(list.begin(), list.begin() + count);
  return taken;
}

}  // namespace

// A tick at this time, even if the last one asked for a later one.
void KvReceiver::Impl::arm(std::int64_t time_us) {
  if (time_us >= next_tick_us_) return;
  next_tick_us_ = time_us;
  link_->wake();
}

// A chunk came that wants an answer.
void KvReceiver::Impl::note_chunk(SessionId id, const WireHeader& header) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = it->second;
  session.to_tell.insert(header.ticket);
  infos_.refresh(id, session.peer, *link_, now_us_);
  {
    std::lock_guard lock(mutex_);
    ++heard_[id];
  }
  const std::uint64_t most[kLanes] = {options_.high_credit_bytes / kAckCreditShare,
                                      std::min(options_.background_credit_bytes / kAckCreditShare, kAckBackgroundBytes)};
  const int lane = static_cast<int>(header.lane);
  session.bytes[lane] += header.length;
  if (++session.chunks >= kAckChunks || session.bytes[lane] >= most[lane]) {
    flush(session);
  } else if (session.flush_us == kNever) {
    session.flush_us = now_us_ + options_.ack_delay_us;
    arm(session.flush_us);
  }
}

// Tells a sender everything that it does not know yet, as far as the link takes it.
void KvReceiver::Impl::flush(Session& session) {
  session.flush_us = kNever;
  session.chunks = 0;
  std::fill(std::begin(session.bytes), std::end(session.bytes), 0);
  while (!session.to_tell.empty()) {
    const TicketId id = *session.to_tell.begin();
    bool told = true;
    if (auto live = tickets_.find(id); live != tickets_.end()) {
      told = tell_live(session, id, live->second);
    } else if (auto past = past_.find(id); past != past_.end()) {
      told = tell_past(session, id, past->second);
    }
    if (!told) return;  // on_sent() goes on.
    session.to_tell.erase(id);
  }
}

// False: the link holds too many acknowledgements already.
bool KvReceiver::Impl::tell_live(Session& session, const TicketId& id, Ticket& ticket) {
  WireHeader header;
  header.ticket = id;
  header.secret = ticket.expectation.secret;
  header.epoch = ticket.transfer.epoch();
  for (int lane = 0; lane < kLanes; ++lane) {
    header.lane = static_cast<Lane>(lane);
    while (ticket.transfer.has_acks(header.lane) || !ticket.damaged[lane].empty()) {
      if (session.acks_in_link >= kAcksInLinkMax) return false;
      AckMessage ack;
      ack.acked = ticket.transfer.take_acks(header.lane, kAckListMax);
      ack.rejected = take_front(ticket.damaged[lane]);
      send_ack(ticket.session, session, header, std::move(ack));
    }
  }
  return true;
}

bool KvReceiver::Impl::tell_past(Session& session, const TicketId& id, const Past& past) {
  if (session.acks_in_link >= kAcksInLinkMax) return false;
  WireHeader header;
  header.ticket = id;
  header.secret = past.secret;
  header.epoch = past.epoch;
  AckMessage ack;
  ack.phase = past.phase;
  send_ack(past.session, session, header, std::move(ack));
  return true;
}

// The caller has seen that the link may take one more.
void KvReceiver::Impl::send_ack(SessionId id, Session& session, WireHeader header, AckMessage ack) {
  ack.credit_bytes[0] = grant(options_.high_credit_bytes);
  ack.credit_bytes[1] = grant(options_.background_credit_bytes);
  const std::uint64_t token = next_token_++;
  AckInLink& in_link = in_link_[token];
  in_link = {id, encode_ack(ack)};
  ++session.acks_in_link;
  header.kind = MessageKind::kAck;
  header.sequence = session.next_ack++;
  header.length = static_cast<std::uint32_t>(in_link.payload.size());
  header.payload_crc = transport::crc32c(in_link.payload);
  count(&KvReceiverStats::acks_sent);
  link_->send(session.peer, Lane::kHigh, encode_header(header), in_link.payload, token);
}

void KvReceiver::Impl::on_sent(std::uint64_t token) {
  auto it = in_link_.find(token);
  if (it == in_link_.end()) return;
  auto session = sessions_.find(it->second.session);
  in_link_.erase(it);
  if (session == sessions_.end()) return;
  // A full link held something back; the tick sends it, since the link may be in the middle of a send() of ours.
  if (session->second.acks_in_link-- < kAcksInLinkMax || session->second.to_tell.empty()) return;
  session->second.flush_us = now_us_;
  arm(now_us_);
}

std::int64_t KvReceiver::Impl::on_tick(std::int64_t now_us) {
  now_us_ = now_us;
  next_tick_us_ = 0;  // Nothing needs to wake the tick that it runs in.
  mailbox_.drain();
  for (auto& [id, ticket] : tickets_) {
    reject_unplaced(id, ticket);
    ask_again(id, ticket);
  }
  for (auto& [id, session] : sessions_) {
    if (session.flush_us <= now_us) flush(session);
  }
  return next_tick_us_ = next_deadline();
}

void KvReceiver::Impl::reject_unplaced(const TicketId& id, Ticket& ticket) {
  if ((ticket.unplaced[0].empty() && ticket.unplaced[1].empty()) || now_us_ - ticket.unplaced_us < kUnplacedUs) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    auto& unplaced = ticket.unplaced[lane];
    ticket.damaged[lane].insert(ticket.damaged[lane].end(), unplaced.begin(), unplaced.end());
    unplaced.clear();
  }
  auto session = sessions_.find(ticket.session);
  if (session == sessions_.end()) return;
  session->second.to_tell.insert(id);
  session->second.flush_us = now_us_;
}

void KvReceiver::Impl::ask_again(const TicketId& id, Ticket& ticket) {
  if (!ticket.begun || now_us_ - ticket.news_us < options_.ask_again_us) return;
  ticket.news_us = now_us_;
  auto it = sessions_.find(ticket.session);
  if (it == sessions_.end() || it->second.acks_in_link >= kAcksInLinkMax) return;
  WireHeader header;
  header.ticket = id;
  header.secret = ticket.expectation.secret;
  header.epoch = ticket.transfer.epoch();
  AckMessage ack;
  ack.missing = ticket.transfer.missing(kAckListMax);
  count(&KvReceiverStats::asked_again, ack.missing.size());
  send_ack(ticket.session, it->second, header, std::move(ack));
}

std::int64_t KvReceiver::Impl::next_deadline() const {
  std::int64_t deadline = kNever;
  for (const auto& [id, session] : sessions_) deadline = std::min(deadline, session.flush_us);
  for (const auto& [id, ticket] : tickets_) {
    if (sessions_.count(ticket.session) == 0) continue;
    if (ticket.begun) deadline = std::min(deadline, ticket.news_us + options_.ask_again_us);
    if (!ticket.unplaced[0].empty() || !ticket.unplaced[1].empty()) deadline = std::min(deadline, ticket.unplaced_us + kUnplacedUs);
  }
  return deadline;
}

}  // namespace lynx::server
