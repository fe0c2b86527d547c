// Nodes, sessions and what happens to them.

#include <algorithm>

#include "tests/catch.h"
#include "tests/sim/world_parts.h"

namespace lynx::sim {

using namespace lynx::transport;
using server::SessionId;

void TransferWorld::start_prefill(std::size_t index, NodeId successor_of) {
  auto node = std::make_unique<Prefill>();
  node->world = this;
  node->index = index;
  node->link = network_.add_node(&node->node, successor_of);
  auto sender = server::KvSender::create(plan_.sender, node->link, node.get());
  REQUIRE(sender.ok());
  node->sender = std::move(*sender);
  node->link->start(node->sender.get());
  prefills_[index] = std::move(node);
  for (auto& decode : decodes_) {
    if (decode) connect(prefills_[index].get(), decode.get());
  }
}

void TransferWorld::start_decode(std::size_t index, NodeId successor_of) {
  auto node = std::make_unique<Decode>();
  node->world = this;
  node->index = index;
  node->boot = next_boot_++;
  node->link = network_.add_node(&node->node, successor_of);
  auto receiver = server::KvReceiver::create(plan_.receiver, node->link, node.get());
  REQUIRE(receiver.ok());
  node->receiver = std::move(*receiver);
  node->link->start(node->receiver.get());
  decodes_[index] = std::move(node);
  for (auto& prefill : prefills_) {
    if (prefill) connect(prefill.get(), decodes_[index].get());
  }
}

void TransferWorld::connect(Prefill* prefill, Decode* decode) {
  if (!prefill->alive || !decode->alive) return;
  const SessionId id = next_session_++;
  sessions_[id] = std::make_unique<Session>(Session{prefill, decode});
  decode->receiver->connect(id, prefill->link->address());
  prefill->sender->connect(id, decode->link->address());
}

void TransferWorld::session_connected(SessionId id, const Status& status) {
  if (!status.ok()) return fail("a session does not connect: " + status.message());
  ++sessions_.at(id)->connected;
}

// Either end has noticed; the control plane tells the other one.
void TransferWorld::session_lost(SessionId id, bool tell_sender) {
  Session& session = *sessions_.at(id);
  if (session.lost) return;
  session.lost = true;
  ++coverage_->sessions_lost;
  if (plan_.deaths == 0 && !plan_.goes_down) fail("a session was lost for no reason");
  for (auto& [ticket_id, ticket] : tickets_) {
    if (ticket->session == id && live_.count(ticket_id) != 0) ticket->harmed = true;
  }
  clock_.after(draw_.between(1, 20'000), [this, id, tell_sender] {
    Session& of = *sessions_.at(id);
    if (of.decode->alive) of.decode->receiver->disconnect(id);
    if (of.prefill->alive && tell_sender) of.prefill->sender->disconnect(id);
    for (auto& [ticket_id, ticket] : tickets_) {
      if (ticket->session != id || live_.count(ticket_id) == 0) continue;
      if (!ticket->receiver_over) of.decode->receiver->retire(ticket_id);
      if (!ticket->opened && !ticket->sender_over) over_at_sender(*ticket, false);
    }
    clock_.after(200'000, [this, id] { connect(sessions_.at(id)->prefill, sessions_.at(id)->decode); });
  });
}

void TransferWorld::kill_prefill(std::size_t index) {
  auto& node = prefills_[index];
  count(*node);
  node->alive = false;
  network_.kill(node->node, draw_.percent(60) ? draw_.between(1'000, 100'000) : -1);
  for (auto& [id, ticket] : tickets_) {
    if (ticket->prefill != node.get() || live_.count(id) == 0) continue;
    ticket->harmed = true;
    if (!ticket->sender_over) over_at_sender(*ticket, false);
  }
  node->sender.reset();
  const NodeId old = node->node;
  for (auto& [id, session] : sessions_) {
    if (session->prefill != node.get() || session->lost) continue;
    clock_.after(draw_.between(1'000, 1'500'000), [this, each = id] { session_lost(each, false); });
  }
  dead_prefills_.push_back(std::move(node));
  node = nullptr;
  clock_.after(draw_.between(1'000, 500'000), [this, index, old] { start_prefill(index, old); });
}

void TransferWorld::kill_decode(std::size_t index) {
  auto& node = decodes_[index];
  count(*node);
  node->alive = false;
  network_.kill(node->node, draw_.percent(60) ? draw_.between(1'000, 100'000) : -1);
  for (auto& [id, ticket] : tickets_) {
    if (ticket->decode != node.get() || live_.count(id) == 0) continue;
    ticket->harmed = true;
    if (!ticket->receiver_over) over_at_receiver(*ticket, false);
    if (!ticket->opened && !ticket->sender_over) over_at_sender(*ticket, false);
  }
  node->receiver.reset();
  const NodeId old = node->node;
  for (auto& [id, session] : sessions_) {
    if (session->decode != node.get() || session->lost) continue;
    // The sender finds out by itself; the control plane only sweeps up sessions in which nothing was under way.
    clock_.after(40'000'000, [this, each = id] { session_lost(each, true); });
  }
  dead_decodes_.push_back(std::move(node));
  node = nullptr;
  clock_.after(draw_.between(1'000, 500'000), [this, index, old] { start_decode(index, old); });
}

void TransferWorld::plan_troubles() {
  const std::int64_t until = plan_.arrivals_us + 300'000;
  for (int death = 0; death < plan_.deaths; ++death) {
    clock_.at(draw_.between(0, until), [this, prefill = draw_.percent(50), draw = draw_.below(1000)] {
      const auto index = static_cast<std::size_t>(draw) % (prefill ? prefills_.size() : decodes_.size());
      if (prefill && prefills_[index]) kill_prefill(index);
      if (!prefill && decodes_[index]) kill_decode(index);
    });
  }
  for (int stall = 0; stall < plan_.stalls + (plan_.goes_down ? 1 : 0); ++stall) {
    const std::int64_t lasts_us = stall == plan_.stalls ? 60'000'000 : draw_.between(1'000, 4'000'000);
    clock_.at(draw_.between(0, until), [this, lasts_us] {
      const auto& prefill = prefills_.front();
      const auto& decode = decodes_.front();
      if (prefill && decode) network_.stall(prefill->node, decode->node, clock_.now_us() + lasts_us);
    });
  }
  for (int each = 0; each < plan_.strangers; ++each) {
    clock_.at(draw_.between(0, until), [this] { stranger(); });
  }
}

// Random bytes, or a well-formed chunk for a ticket whose secret the stranger does not know.
void TransferWorld::stranger() {
  std::vector<std::byte> payload(static_cast<std::size_t>(draw_.between(0, 200)), std::byte{0x5a});
  std::vector<std::byte> bytes(static_cast<std::size_t>(draw_.between(0, 2 * kWireHeaderBytes)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw_.below(256));
  if (!tickets_.empty() && draw_.percent(70)) {
    WireHeader header;
    header.kind = draw_.percent(50) ? MessageKind::kData : MessageKind::kAck;
    header.ticket = std::next(tickets_.begin(), draw_.below(static_cast<std::int64_t>(tickets_.size())))->first;
    payload.resize(16);
    header.epoch = static_cast<std::uint32_t>(draw_.below(3));
    header.unit_bytes = header.length = static_cast<std::uint32_t>(payload.size());
    const WireBytes forged = encode_header(header);
    bytes.assign(forged.begin(), forged.end());
  }
  ++coverage_->strangers;
  for (const auto& node : decodes_) {
    if (node) network_.inject(node->node, Lane::kHigh, bytes, payload);
  }
  for (const auto& node : prefills_) {
    if (node) network_.inject(node->node, Lane::kHigh, bytes, payload);
  }
}

}  // namespace lynx::sim
