// A ticket's life in the simulated world.

#include <algorithm>
#include <cstring>

#include "tests/sim/world_parts.h"

namespace lynx::sim {

using namespace lynx::transport;

class TransferWorld::Source final : public server::UnitSource {
 public:
  Source(TransferWorld* world, const Ticket* ticket) : world_(world), ticket_(ticket) {}
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    if (ticket_->sender_over) world_->fail("a source was read after its ticket was over");
    const Content content = content_of(ticket_->seed, unit, ticket_->expectation.unit_bytes_max);
    std::memcpy(out.data(), content.bytes.data(), content.bytes.size());
    return {content.plane, static_cast<std::uint32_t>(content.bytes.size())};
  }

 private:
  TransferWorld* world_;
  const Ticket* ticket_;
};

class TransferWorld::Sink final : public server::UnitSink {
 public:
  Sink(TransferWorld* world, Ticket* ticket) : world_(world), ticket_(ticket) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    if (ticket_->receiver_over) world_->fail("a sink was called after its ticket was over");
    if (ticket_->region->owner != ticket_->expectation.ticket) world_->fail("a unit landed in another's memory");
    const Content content = content_of(ticket_->seed, unit, ticket_->expectation.unit_bytes_max);
    if (content.plane != unit.plane || !std::equal(bytes.begin(), bytes.end(), content.bytes.begin(), content.bytes.end())) {
      world_->fail("a unit's bytes or plane are not what was sent");
    }
    if (ticket_->poisoned < ticket_->units.size()) {
      const UnitKey& bad = ticket_->units[ticket_->poisoned].key;
      if (place_of(bad) == place_of(unit)) return {Code::kDataLoss, "poisoned"};
    }
    if (!ticket_->region->units.try_emplace(place_of(unit), bytes.begin(), bytes.end()).second) {
      world_->fail("a unit was placed twice");
    }
    take_step(unit);
    return {};
  }

 private:
  void take_step(const UnitKey& unit) {
    if (!is_residual(unit.plane)) {
      if (--ticket_->first_left == 0) ticket_->awaited_residuals = ticket_->residuals_left > 0;
      return;
    }
    --ticket_->residuals_left;
    if (ticket_->first_left > 0) ++world_->coverage_->residuals_before_anchored;
    UnitKey anchor = unit;
    anchor.plane = Plane::kAnchor;
    if (ticket_->region->units.count(place_of(anchor)) == 0) world_->fail("a Residual came before its Anchor");
  }

  TransferWorld* world_;
  Ticket* ticket_;
};

void TransferWorld::Decode::on_anchored(const TicketId& ticket) {
  Ticket& of = world->ticket_of(ticket);
  if (of.receiver_over || std::exchange(of.anchored, true)) world->fail("on_anchored out of place");
  if (of.first_left > 0 || of.residuals_left == 0) world->fail("on_anchored, but it is not true");
  ++world->coverage_->anchored;
}

void TransferWorld::Decode::on_failed(const TicketId& ticket, const Status&) {
  Ticket& of = world->ticket_of(ticket);
  if (of.poisoned >= of.units.size()) world->fail("a ticket failed for no reason");
  ++world->coverage_->failed;
  world->over_at_receiver(of, false);
}

void TransferWorld::Decode::on_retired(const TicketId& ticket) {
  Ticket& of = world->ticket_of(ticket);
  if (!of.receiver_over) world->over_at_receiver(of, false);
}

void TransferWorld::arrive() {
  std::vector<server::SessionId> ready;
  for (const auto& [id, session] : sessions_) {
    if (session->connected == 2 && !session->lost && session->prefill->alive && session->decode->alive) ready.push_back(id);
  }
  Region* region = nullptr;
  server::SessionId chosen = 0;
  if (!ready.empty()) {
    chosen = ready[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(ready.size())))];
    for (Region& each : sessions_.at(chosen)->decode->regions) {
      if (!each.owner) region = &each;
    }
  }
  if (region == nullptr) return clock_.after(20'000, [this] { arrive(); });
  --to_arrive_;
  auto made = std::make_unique<Ticket>();
  Ticket& ticket = *made;
  ticket.session = chosen;
  ticket.prefill = sessions_.at(chosen)->prefill;
  ticket.decode = sessions_.at(chosen)->decode;
  ticket.seed = next_ticket_ * 7919;
  auto& expectation = ticket.expectation;
  expectation.ticket = {ticket.decode->boot, next_ticket_++};
  for (auto& byte : expectation.secret) byte = static_cast<std::uint8_t>(draw_.below(256));
  expectation.layers = static_cast<int>(draw_.between(1, 4));
  expectation.blocks = static_cast<int>(draw_.between(1, 7));
  expectation.planes = {Plane::kBf16, Plane::kLossless};
  expectation.unit_bytes_max = static_cast<std::uint32_t>(draw_.between(1, plan_.unit_bytes_max));
  draw_units(ticket);
  if (draw_.percent(plan_.poison_percent))
    ticket.poisoned = static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(ticket.units.size())));
  if (region->uses++ > 0) ++coverage_->regions_reused;
  region->owner = expectation.ticket;
  ticket.region = region;
  live_.insert(expectation.ticket);
  tickets_[expectation.ticket] = std::move(made);
  ticket.decode->receiver->expect(chosen, expectation, std::make_shared<Sink>(this, &ticket));
  clock_.after(draw_.between(1, 5'000), [this, &ticket] { open_at_sender(ticket); });
  if (draw_.percent(plan_.abort_percent)) clock_.after(draw_.between(1, 400'000), [this, &ticket] { abort(ticket); });
}

// In one step on either lane, or Anchors of which some, or all, have Residuals behind them.
void TransferWorld::draw_units(Ticket& ticket) {
  auto& expectation = ticket.expectation;
  const std::int64_t background_percent = draw_.below(3) * 50;
  const bool two_steps = plan_.two_steps && draw_.percent(80);
  if (two_steps) {
    expectation.planes.push_back(Plane::kAnchor);
    expectation.residual_planes = {Plane::kExactResidual, Plane::kBf16Residual};
  }
  for (std::uint16_t layer = 0; layer < expectation.layers; ++layer) {
    for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(expectation.blocks); ++block) {
      for (Part part : {Part::kK, Part::kV}) {
        const bool drawn = draw_.percent(static_cast<int>(background_percent));
        const bool residual = two_steps && drawn;
        const Lane lane = drawn && !two_steps ? Lane::kBackground : Lane::kHigh;
        ticket.units.push_back({{layer, part, residual ? Plane::kAnchor : Plane::kLossless, block}, lane});
        if (residual) ticket.units.push_back({{layer, part, Plane::kExactResidual, block}, Lane::kBackground});
        ++ticket.first_left;
        ticket.residuals_left += residual ? 1 : 0;
        if (two_steps) expectation.residuals.push_back(residual);
      }
    }
  }
}

void TransferWorld::open_at_sender(Ticket& ticket) {
  if (ticket.sender_over || ticket.opened || !ticket.prefill->alive) return;
  server::OutgoingTicket order;
  order.session = ticket.session;
  order.ticket = ticket.expectation.ticket;
  order.secret = ticket.expectation.secret;
  order.unit_bytes_max = ticket.expectation.unit_bytes_max;
  order.expected_bytes = ticket.units.size() * order.unit_bytes_max / 2;
  ticket.opened = true;
  flight_.opened(order.ticket, order.session);
  ticket.prefill->sender->open(order, std::make_shared<Source>(this, &ticket));
  feed(ticket, 0);
}

// Units become ready some at a time, as layers are computed.
void TransferWorld::feed(Ticket& ticket, std::size_t from) {
  if (ticket.sender_over) return;
  const TicketId& id = ticket.expectation.ticket;
  const std::size_t to = std::min(ticket.units.size(), from + static_cast<std::size_t>(draw_.between(1, 20)));
  for (Lane lane : {Lane::kHigh, Lane::kBackground}) {
    std::vector<UnitKey> units;
    for (std::size_t i = from; i < to; ++i) {
      if (ticket.units[i].lane != lane) continue;
      units.push_back(ticket.units[i].key);
      flight_.added(id, lane, ticket.units[i].key);
    }
    if (!units.empty()) ticket.prefill->sender->add_units(id, lane, std::move(units));
  }
  if (to == ticket.units.size()) return ticket.prefill->sender->finish(id);
  clock_.after(draw_.between(1, 30'000), [this, &ticket, to] { feed(ticket, to); });
}

void TransferWorld::abort(Ticket& ticket) {
  if (ticket.receiver_over && ticket.sender_over) return;
  ticket.aborted = true;
  const TicketId id = ticket.expectation.ticket;
  if (draw_.percent(50)) {
    if (!ticket.receiver_over) ticket.decode->receiver->retire(id);
    clock_.after(draw_.between(1, 20'000), [this, &ticket, id] {
      if (ticket.sender_over) return;
      if (!ticket.opened) return over_at_sender(ticket, false);
      ticket.prefill->sender->abort(id);
    });
  } else if (ticket.opened && !ticket.sender_over) {
    ticket.prefill->sender->abort(id);
  } else {
    if (!ticket.sender_over) over_at_sender(ticket, false);
  }
}

void TransferWorld::over_at_receiver(Ticket& ticket, bool complete) {
  const TicketId id = ticket.expectation.ticket;
  if (ticket.receiver_over) return fail("a receiver ended a ticket twice");
  ticket.receiver_over = true;
  ticket.complete = complete;
  if (complete && ticket.region->units.size() != ticket.units.size()) fail("complete with units missing");
  // Decoding goes on in this memory for a while; then another ticket gets it. After an abort it does at once.
  clock_.after(complete ? draw_.between(1, 50'000) : 0, [this, &ticket] { release_region(ticket); });
  if (ticket.sender_over) live_.erase(id);
}

void TransferWorld::release_region(Ticket& ticket) {
  if (ticket.region->owner != ticket.expectation.ticket) return fail("memory was given to two tickets");
  if (ticket.complete) {
    for (const auto& unit : ticket.units) {
      const Content content = content_of(ticket.seed, unit.key, ticket.expectation.unit_bytes_max);
      auto landed = ticket.region->units.find(place_of(unit.key));
      if (landed == ticket.region->units.end() || landed->second != content.bytes) fail("the cache changed while it was in use");
    }
  }
  ticket.region->units.clear();
  ticket.region->owner.reset();
}

void TransferWorld::over_at_sender(Ticket& ticket, bool delivered) {
  const TicketId id = ticket.expectation.ticket;
  const bool poisoned = ticket.poisoned < ticket.units.size();
  if (ticket.sender_over) return fail("a sender ended a ticket twice");
  ticket.sender_over = true;
  ticket.delivered = delivered;
  flight_.over(id);
  if (delivered && !ticket.complete) fail("delivered, but not complete at the receiver");
  if (!delivered && !ticket.aborted && !ticket.harmed && !poisoned) fail("a sender closed a ticket for no reason");
  if (ticket.receiver_over) {
    live_.erase(id);
    return;
  }
  clock_.after(draw_.between(1, 20'000), [&ticket, id] {
    if (!ticket.receiver_over) ticket.decode->receiver->retire(id);
  });
}

}  // namespace lynx::sim
