#include <algorithm>

#include "tests/catch.h"
#include "tests/sim/pair_nodes.h"

namespace lynx::sim {

using namespace lynx::transport;
using scheduler::PassItem;
using scheduler::PassKind;
using scheduler::RequestState;
using server::SessionId;

namespace {

constexpr std::uint64_t kBoot = 7;
constexpr std::int64_t kPassUs = 2'000;

scheduler::TicketDeskOptions desk_options(int nodes, bool harmless, Draw& draw) {
  return {.nodes = nodes, .max_attempts = harmless ? 8 : static_cast<int>(draw.between(1, 8))};
}

scheduler::BatcherLimits limits(bool tight, Draw& draw) {
  return {.blocks = static_cast<int>(tight ? draw.between(6, 12) : draw.between(8, 24)),
          .block_tokens = kSimBlockTokens,
          .rows_per_pass = 64,
          .logit_rows_per_pass = 16,
          .max_running = static_cast<int>(draw.between(1, 8))};
}

}  // namespace

PairWorld::Decode::Decode(PairWorld* world)
    : world_(world),
      batcher_(limits(world->two_steps_, world->draw_)),
      pool_(batcher_.limits().blocks),
      desk_(desk_options(world->plan_.prefill_nodes, world->harmless_, world->draw_)),
      sessions_(static_cast<std::size_t>(world->plan_.prefill_nodes), 0) {
  link = world->network_.add_node(&node);
  auto made = server::KvReceiver::create(world->plan_.receiver, link, this);
  REQUIRE(made.ok());
  receiver = std::move(*made);
  link->start(receiver.get());
}

void PairWorld::Decode::submit(int prompt_tokens, int target) {
  const std::uint64_t id = next_request_++;
  const scheduler::RequestShape shape{.prompt_tokens = prompt_tokens, .max_tokens = target, .remote_prompt = true};
  if (!batcher_.submit(id, shape).ok()) return;
  live_.emplace(id, Live{.shape = shape, .table = kv::BlockTable(&pool_), .target = target});
  pump();
}

void PairWorld::Decode::cancel_one() {
  if (live_.empty()) return;
  const auto it = std::next(live_.begin(), world_->draw_.below(static_cast<std::int64_t>(live_.size())));
  if (pass_under_way_) return;  // As the engine does: between passes.
  ++world_->coverage_->cancelled;
  world_->coverage_->cancelled_drafting += it->second.drafting ? 1 : 0;
  const std::uint64_t id = it->first;
  batcher_.failed(id);
  end(id);
  pump();
}

void PairWorld::Decode::on_connected(SessionId session, const Status& status) {
  if (!status.ok()) return world_->fail("a session does not connect: " + status.message());
  if (++world_->sessions_.at(session).connected == 2) node_up(session, world_->sessions_.at(session).index);
}

void PairWorld::Decode::node_up(SessionId session, std::size_t index) {
  if (world_->sessions_.at(session).over) return;
  // A client connects again only after it has said that the last connection was lost.
  if (sessions_[index] != 0) node_lost(sessions_[index], index);
  sessions_[index] = session;
  desk_.node_up(static_cast<int>(index), &commands_);
  carry_out();
}

void PairWorld::Decode::node_lost(SessionId session, std::size_t index) {
  receiver->disconnect(session);
  if (sessions_[index] != session) return;
  sessions_[index] = 0;
  desk_.node_down(static_cast<int>(index), {Code::kUnavailable, "lost"}, &commands_);
  carry_out();
}

void PairWorld::Decode::on_session_lost(SessionId session, const Status&) {
  world_->end_session(session);
}
void PairWorld::Decode::on_complete(const TicketId& ticket, const transport::TransferBytes&) {
  tell_desk([this, number = ticket.request] { desk_.arrived(number, &commands_); });
}
void PairWorld::Decode::on_failed(const TicketId&, const Status& why) {
  world_->fail("a unit did not decode: " + why.message());
}
void PairWorld::Decode::on_retired(const TicketId& ticket) {
  tell_desk([this, number = ticket.request] {
    issued_.erase(number);
    desk_.retired(number, world_->clock_.now_us(), &commands_);
  });
}

void PairWorld::Decode::first_token(std::uint64_t ticket) {
  const auto request = desk_.request_of(ticket);
  if (!request) return;
  tell_engine([this, id = *request] {
    const auto it = live_.find(id);
    if (it == live_.end() || !it->second.in_transfer || it->second.generated > 0) return;
    if (it->second.target == 1) ++world_->coverage_->ended_by_first_token;
    take_token(id);
  });
  desk_.first_tokens(ticket, &commands_);
  carry_out();
}

void PairWorld::Decode::ticket_failed(std::uint64_t ticket, const Status& why) {
  desk_.ticket_failed(ticket, why, &commands_);
  carry_out();
}

void PairWorld::Decode::pump() {
  while (!pass_under_way_) {
    scheduler::BatcherStep step = batcher_.next();
    for (const scheduler::SequenceId& sequence : step.take_back) {
      ++world_->coverage_->taken_back;
      Live& live = live_.at(sequence.request);
      live.table.truncate(live.shape.prompt_tokens + live.generated);
    }
    for (const std::uint64_t id : step.preempt) {
      ++world_->coverage_->preempted;
      Live& live = live_.at(id);
      world_->coverage_->preempted_drafting += live.drafting ? 1 : 0;
      live.has_cache = false;
      let_go(id, live);
    }
    for (const std::uint64_t id : step.admit) {
      Live& live = live_.at(id);
      if (!live.table.reserve(live.shape.prompt_tokens)) return world_->fail("fewer free blocks than were counted");
      live.in_transfer = true;
      desk_.want(id, {.prompt_tokens = live.shape.prompt_tokens, .cache = live.target > 1}, world_->clock_.now_us(), &commands_);
    }
    carry_out();
    if (!step.pass.empty()) {
      pass_under_way_ = true;
      world_->clock_.after(kPassUs, [this, pass = step.pass] { finish_pass(pass); });
      return;
    }
    if (step.preempt.empty() && step.admit.empty()) return;
  }
}

void PairWorld::Decode::finish_pass(const std::vector<PassItem>& pass) {
  pass_under_way_ = false;
  for (const PassItem& item : pass) {
    if (!check_item(item, live_.at(item.sequence.request))) return;
  }
  batcher_.pass_completed();
  for (const PassItem& item : pass) take_tokens(item);
  drain_events();
  pump();
}

bool PairWorld::Decode::check_item(const PassItem& item, const Live& live) {
  const std::uint64_t id = item.sequence.request;
  if (item.kind == PassKind::kPrefill) world_->fail("a prompt is computed at the decode node");
  if (item.kind == PassKind::kDraft) {
    if (!live.drafting) world_->fail("a request drafts without Anchors");
    check_anchors(id, live);
  } else {
    if (!live.has_cache) world_->fail("a request decodes without its cache");
    check_cache(id, live);
  }
  if (!live_.at(id).table.reserve(item.start + item.count)) world_->fail("fewer free blocks than were counted");
  return world_->failure_.empty();
}

void PairWorld::Decode::take_tokens(const PassItem& item) {
  const std::uint64_t id = item.sequence.request;
  Live& live = live_.at(id);
  if (item.kind == PassKind::kDraft) {
    ++live.drafts;
    ++world_->coverage_->drafts;
    return batcher_.drafted(item.sequence);
  }
  if (item.kind == PassKind::kVerify) return verify(item);
  if (item.start + item.count == live.shape.prompt_tokens + live.generated) take_token(id);
}

void PairWorld::Decode::take_token(std::uint64_t id) {
  Live& live = live_.at(id);
  ++live.generated;
  batcher_.token_added({id, 0});
  if (live.generated < live.target) return;
  batcher_.choice_ended({id, 0});
  ++world_->coverage_->finished;
  end(id);
}

void PairWorld::Decode::end(std::uint64_t id) {
  auto live = live_.extract(id);
  let_go(id, live.mapped());
}

void PairWorld::Decode::let_go(std::uint64_t id, Live& live) {
  drop_drafts(live);
  if (std::exchange(live.in_transfer, false)) {
    retained_.emplace(id, std::move(live.table));
    live.table = kv::BlockTable(&pool_);
    desk_.end(id, &commands_);
    return carry_out();
  }
  live.table.truncate(0);
  batcher_.released({id, 0});
}

void PairWorld::Decode::carry_out() {
  if (std::exchange(carrying_out_, true)) return;
  while (!commands_.empty()) {
    for (const auto& command : std::exchange(commands_, {})) carry_out(command);
  }
  carrying_out_ = false;
  if (const std::int64_t next = desk_.next_tick_us(); next != std::numeric_limits<std::int64_t>::max()) {
    world_->clock_.at(next, [this] {
      desk_.tick(world_->clock_.now_us(), &commands_);
      if (!commands_.empty()) carry_out();
    });
  }
}

void PairWorld::Decode::carry_out(const scheduler::TicketCommand& command) {
  using Kind = scheduler::TicketCommand::Kind;
  const SessionId session = sessions_[static_cast<std::size_t>(std::max(command.node, 0))];
  switch (command.kind) {
    case Kind::kIssue: return issue(command);
    case Kind::kCancel:
    case Kind::kRelease:
      if (session == 0) return;
      return world_->to_prefill(session, [number = command.ticket](Prefill& prefill) { prefill.unwanted(number); });
    case Kind::kRetire:
      if (!receiver) return;
      ++world_->coverage_->retired_in_flight;
      return receiver->retire({kBoot, command.ticket});
    case Kind::kAnchored: return tell_engine([this, id = command.request] { anchored(id); });
    case Kind::kAnchorsLost: return tell_engine([this, id = command.request] { anchors_lost(id); });
    case Kind::kArrived:
      for (auto it = issued_.begin(); it != issued_.end();) {
        it = it->second == command.request ? issued_.erase(it) : std::next(it);
      }
      return tell_engine([this, id = command.request] { arrived(id); });
    case Kind::kReleased: return tell_engine([this, id = command.request] { released(id); });
    case Kind::kFailed: return tell_engine([this, id = command.request] { failed(id); });
  }
}

void PairWorld::Decode::issue(const scheduler::TicketCommand& command) {
  for (const auto& [ticket, request] : issued_) {
    if (request == command.request) return world_->fail("a second transfer into the same blocks");
  }
  if (!first_tickets_.emplace(command.request, command.ticket).second) ++world_->coverage_->again;
  const Live& live = live_.at(command.request);
  if (live.drafting) world_->fail("a second transfer while its Anchors are read");
  Ticket ticket{
      .number = command.ticket, .request = command.request, .prompt_tokens = live.shape.prompt_tokens, .cache = live.target > 1};
  for (auto& byte : ticket.secret) byte = static_cast<std::uint8_t>(world_->draw_.below(256));
  const SessionId session = sessions_[static_cast<std::size_t>(command.node)];
  issued_.emplace(command.ticket, command.request);
  if (ticket.cache) receiver->expect(session, expectation(ticket), make_sink(command.request));
  world_->to_prefill(session, [session, ticket](Prefill& prefill) { prefill.take(session, ticket); });
}

void PairWorld::Decode::arrived(std::uint64_t id) {
  ++world_->coverage_->arrived;
  const auto it = live_.find(id);
  if (it == live_.end() || !it->second.in_transfer) return released(id);
  it->second.in_transfer = false;
  it->second.has_cache = true;
  world_->coverage_->arrived_drafting += std::exchange(it->second.drafting, false) ? 1 : 0;
  check_cache(id, it->second);
  batcher_.prompt_arrived(id);
  const RequestState expected = it->second.drafts > 0 ? RequestState::kVerifying : RequestState::kDecoding;
  if (batcher_.state(id) != expected) world_->fail("the cache is there, but the request does not decode");
  pump();
}

void PairWorld::Decode::released(std::uint64_t id) {
  retained_.erase(id);
  batcher_.released({id, 0});
  pump();
}

void PairWorld::Decode::failed(std::uint64_t id) {
  const auto it = live_.find(id);
  if (it == live_.end() || !it->second.in_transfer) return;
  ++world_->coverage_->failed;
  if (world_->harmless_) world_->fail("a request failed though nothing died");
  batcher_.failed(id);
  end(id);
}

// Whatever has come, gone, been sent twice or late: these blocks hold this request's prompt.
void PairWorld::Decode::check_cache(std::uint64_t id, const Live& live) {
  for (int block = 0; block < kv::blocks_for(live.shape.prompt_tokens); ++block) {
    for (int layer = 0; layer < kSimLayers; ++layer) {
      for (const Part part : {Part::kK, Part::kV}) {
        UnitKey unit = world_->first_unit(live.shape.prompt_tokens, layer, block, part);
        if (has_residual(unit)) unit = residual_of(unit);
        const auto found = memory_.find({live.table.blocks()[static_cast<std::size_t>(block)], layer, part});
        if (found == memory_.end() || found->second != content_of(id, unit, world_->plan_.unit_bytes_max).bytes) {
          return world_->fail("request " + std::to_string(id) + " has a wrong cache");
        }
      }
    }
  }
}

std::string PairWorld::Decode::describe() const {
  std::string text = std::to_string(desk_.live()) + " at the desk, " + std::to_string(retained_.size()) +
                     " retained, receiver has " + std::to_string(receiver->stats().live_tickets);
  for (const auto& [id, live] : live_) {
    text += ", request " + std::to_string(id) + " is " + std::string(state_name(*batcher_.state(id))) +
            (live.in_transfer ? " in transfer" : "");
  }
  for (const SessionId session : sessions_) text += session != 0 ? ", node up" : ", node down";
  return text;
}

void PairWorld::Decode::check_rest() {
  if (pool_.free_count() != pool_.capacity()) world_->fail("the decode node's blocks leaked");
  if (batcher_.free_blocks() != batcher_.limits().blocks) world_->fail("the decode node's counts leaked");
  const auto stats = receiver->stats();
  if (stats.live_tickets != 0 || stats.slots_in_use != 0) world_->fail("the receiver still holds tickets or slots");
}

}  // namespace lynx::sim
