#include "tests/catch.h"
#include "tests/sim/pair_nodes.h"

namespace lynx::sim {

using namespace lynx::transport;
using scheduler::PassItem;
using server::SessionId;

namespace {

constexpr std::uint64_t kBoot = 7;
constexpr std::int64_t kLayerUs = 3'000;

}  // namespace

class PairWorld::Prefill::Source final : public server::UnitSource {
 public:
  Source(std::uint64_t request, std::uint32_t unit_bytes_max) : request_(request), unit_bytes_max_(unit_bytes_max) {}
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    const Content content = content_of(request_, unit, unit_bytes_max_);
    std::copy(content.bytes.begin(), content.bytes.end(), out.begin());
    return {content.plane, static_cast<std::uint32_t>(content.bytes.size())};
  }

 private:
  std::uint64_t request_;
  std::uint32_t unit_bytes_max_;
};

PairWorld::Prefill::Prefill(PairWorld* world, std::size_t index)
    : world_(world),
      index_(index),
      batcher_({.blocks = static_cast<int>(world->draw_.between(5, 24)),
                .block_tokens = kSimBlockTokens,
                .rows_per_pass = static_cast<int>(world->draw_.between(20, 200)),
                .logit_rows_per_pass = 16,
                .max_running = static_cast<int>(world->draw_.between(1, 6))}),
      pool_(batcher_.limits().blocks) {}

void PairWorld::Prefill::on_connected(SessionId session, const Status& status) {
  if (!status.ok()) return world_->fail("a session does not connect: " + status.message());
  if (++world_->sessions_.at(session).connected == 2) world_->decode_->node_up(session, index_);
}

void PairWorld::Prefill::on_session_lost(SessionId session, const Status&) {
  world_->end_session(session);
}

void PairWorld::Prefill::take(SessionId session, const Ticket& ticket) {
  const scheduler::RequestShape shape{.prompt_tokens = ticket.prompt_tokens, .max_tokens = 1};
  if (const Status status = batcher_.submit(ticket.number, shape); !status.ok()) {
    return world_->to_decode(session, [number = ticket.number](Decode& decode) {
      decode.ticket_failed(number, {Code::kUnavailable, "no room here"});
    });
  }
  tickets_[ticket.number] = {.session = session, .ticket = ticket, .table = std::nullopt};
  pump();
}

void PairWorld::Prefill::pump() {
  while (!pass_under_way_) {
    const scheduler::BatcherStep step = batcher_.next();
    if (!step.preempt.empty()) return world_->fail("a prefill node preempts");
    for (const std::uint64_t number : step.admit) admit(number, tickets_.at(number));
    if (!step.pass.empty()) {
      pass_under_way_ = true;
      for (int layer = 0; layer < kSimLayers; ++layer) {
        world_->clock_.after(kLayerUs * (layer + 1), [this, pass = step.pass, layer] {
          if (!alive) return;
          for (const PassItem& item : pass) {
            const auto it = tickets_.find(item.sequence.request);
            if (it != tickets_.end()) store(it->second, item, layer);
          }
          if (layer + 1 == kSimLayers) finish_pass(pass);
        });
      }
      return;
    }
    if (step.admit.empty()) return;
  }
}

void PairWorld::Prefill::admit(std::uint64_t number, Job& job) {
  job.table.emplace(&pool_);
  if (!job.table->reserve(job.ticket.prompt_tokens)) return world_->fail("a prefill node has fewer blocks than were counted");
  if (!job.ticket.cache || job.unwanted) return;
  job.sending = true;
  const int blocks = kv::blocks_for(job.ticket.prompt_tokens);
  sender->open({.session = job.session,
                .ticket = {kBoot, number},
                .secret = job.ticket.secret,
                .unit_bytes_max = world_->plan_.unit_bytes_max,
                .expected_bytes = static_cast<std::uint64_t>(blocks) * kSimLayers * world_->plan_.unit_bytes_max},
               std::make_shared<Source>(job.ticket.request, world_->plan_.unit_bytes_max));
}

void PairWorld::Prefill::store(Job& job, const PassItem& item, int layer) {
  if (!job.sending) return;
  const int end = item.start + item.count;
  const bool last = end == job.ticket.prompt_tokens;
  std::vector<UnitKey> units;
  std::vector<UnitKey> residuals;
  for (int block = item.start / kSimBlockTokens; block < (last ? kv::blocks_for(end) : end / kSimBlockTokens); ++block) {
    for (const Part part : {Part::kK, Part::kV}) {
      units.push_back(world_->first_unit(job.ticket.prompt_tokens, layer, block, part));
      if (has_residual(units.back())) residuals.push_back(residual_of(units.back()));
    }
  }
  sender->add_units({kBoot, job.ticket.number}, Lane::kHigh, std::move(units));
  if (!residuals.empty()) sender->add_units({kBoot, job.ticket.number}, Lane::kBackground, std::move(residuals));
  if (last && layer + 1 == kSimLayers) sender->finish({kBoot, job.ticket.number});
}

void PairWorld::Prefill::finish_pass(const std::vector<PassItem>& pass) {
  pass_under_way_ = false;
  batcher_.pass_completed();
  for (const PassItem& item : pass) {
    const auto it = tickets_.find(item.sequence.request);
    if (it == tickets_.end() || item.start + item.count != it->second.ticket.prompt_tokens || it->second.engine_done) continue;
    batcher_.token_added(item.sequence);
    batcher_.choice_ended(item.sequence);
    it->second.engine_done = true;
    world_->to_decode(it->second.session, [number = it->first](Decode& decode) { decode.first_token(number); });
    erase_if_over(it->first);
  }
  pump();
}

void PairWorld::Prefill::unwanted(std::uint64_t number) {
  const auto it = tickets_.find(number);
  if (it == tickets_.end() || std::exchange(it->second.unwanted, true)) return;
  if (it->second.sending) sender->abort({kBoot, number});
  if (!it->second.engine_done) {
    batcher_.failed(number);
    it->second.engine_done = true;
  }
  erase_if_over(number);
  pump();
}

void PairWorld::Prefill::session_over(SessionId session) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, job] : tickets_) {
    if (job.session == session) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) unwanted(number);
  sender->disconnect(session);
}

void PairWorld::Prefill::on_delivered(const TicketId& ticket) {
  sender_done(ticket, true);
}
void PairWorld::Prefill::on_closed(const TicketId& ticket) {
  sender_done(ticket, false);
}

void PairWorld::Prefill::sender_done(const TicketId& ticket, bool delivered) {
  const auto it = tickets_.find(ticket.request);
  if (it == tickets_.end()) return;
  it->second.sending = false;
  if (!delivered && !it->second.unwanted) {
    world_->to_decode(it->second.session, [number = it->first](Decode& decode) {
      decode.ticket_failed(number, {Code::kDataLoss, "the transfer was given up"});
    });
  }
  erase_if_over(ticket.request);
  pump();
}

void PairWorld::Prefill::erase_if_over(std::uint64_t number) {
  const auto it = tickets_.find(number);
  if (!it->second.engine_done || !it->second.unwanted || it->second.sending) return;
  tickets_.erase(it);
  batcher_.released({number, 0});
}

std::string PairWorld::Prefill::describe() const {
  std::string text = "sender has " + std::to_string(sender->stats().live_tickets);
  for (const auto& [number, job] : tickets_) {
    text += ", ticket " + std::to_string(number) + (job.engine_done ? " computed" : "") + (job.unwanted ? " unwanted" : "") +
            (job.sending ? " sending" : "");
  }
  return text;
}

void PairWorld::Prefill::check_rest() {
  if (pool_.free_count() != pool_.capacity()) world_->fail("a prefill node's blocks leaked");
  if (batcher_.free_blocks() != batcher_.limits().blocks) world_->fail("a prefill node's counts leaked");
  const auto stats = sender->stats();
  if (stats.live_tickets != 0 || stats.slots_in_use != 0) world_->fail("a sender still holds tickets or slots");
}

}  // namespace lynx::sim
