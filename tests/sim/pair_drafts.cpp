// The decode node between Anchors and Residuals, and what lands at it.

#include <algorithm>
#include <utility>

#include "tests/sim/pair_nodes.h"

namespace lynx::sim {

using namespace lynx::transport;
using scheduler::PassItem;

namespace {

constexpr std::uint64_t kBoot = 7;

}  // namespace

class PairWorld::Decode::Sink final : public server::UnitSink {
 public:
  Sink(Decode* owner, std::uint64_t request, std::vector<kv::BlockId> blocks)
      : owner_(owner), request_(request), blocks_(std::move(blocks)) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    const Place place{blocks_[unit.block], unit.layer, unit.part};
    if (is_residual(unit.plane)) {
      UnitKey anchor = unit;
      anchor.plane = Plane::kAnchor;
      const std::vector<std::byte>& right = content_of(request_, anchor, owner_->world_->plan_.unit_bytes_max).bytes;
      if (owner_->anchors_[place] != right) owner_->world_->fail("a Residual is decoded with another Anchor than its own");
    } else {
      owner_->check_nobody_reads(place.block);
    }
    (unit.plane == Plane::kAnchor ? owner_->anchors_ : owner_->memory_)[place] = {bytes.begin(), bytes.end()};
    return {};
  }

 private:
  Decode* owner_;
  std::uint64_t request_;
  std::vector<kv::BlockId> blocks_;
};

std::shared_ptr<server::UnitSink> PairWorld::Decode::make_sink(std::uint64_t id) {
  const Live& live = live_.at(id);
  const std::vector<kv::BlockId>& table = live.table.blocks();
  return std::make_shared<Sink>(this, id, std::vector(table.begin(), table.begin() + kv::blocks_for(live.shape.prompt_tokens)));
}

TransferExpectation PairWorld::Decode::expectation(const Ticket& ticket) const {
  TransferExpectation expected{.ticket = {kBoot, ticket.number},
                               .secret = ticket.secret,
                               .layers = kSimLayers,
                               .blocks = kv::blocks_for(ticket.prompt_tokens),
                               .planes = {Plane::kBf16, Plane::kLossless},
                               .unit_bytes_max = world_->plan_.unit_bytes_max};
  if (!world_->two_steps_) return expected;
  expected.planes.push_back(Plane::kAnchor);
  expected.residual_planes = {Plane::kExactResidual, Plane::kBf16Residual};
  for (int layer = 0; layer < expected.layers; ++layer) {
    for (int block = 0; block < expected.blocks; ++block) {
      for (const Part part : {Part::kK, Part::kV}) {
        expected.residuals.push_back(has_residual(world_->first_unit(ticket.prompt_tokens, layer, block, part)));
      }
    }
  }
  return expected;
}

void PairWorld::Decode::on_anchored(const TicketId& ticket) {
  tell_desk([this, number = ticket.request] { desk_.anchored(number, &commands_); });
}

// What the link's thread says takes a while to the one that owns the desk, in order: a node may have been lost meanwhile.
void PairWorld::Decode::tell_desk(std::function<void()> event) {
  if (!world_->two_steps_) {
    event();
    return carry_out();
  }
  desk_events_.push_back(std::move(event));
  world_->clock_.after(world_->draw_.between(0, 20'000), [this] {
    const auto first = std::move(desk_events_.front());
    desk_events_.pop_front();
    first();
    carry_out();
  });
}

// In order; between two passes only.
void PairWorld::Decode::tell_engine(std::function<void()> event) {
  if (!world_->two_steps_) return event();
  events_.push_back(std::move(event));
  world_->clock_.after(world_->draw_.between(0, 3'000), [this] {
    drain_events();
    pump();
  });
}

void PairWorld::Decode::drain_events() {
  while (!pass_under_way_ && !events_.empty()) {
    const auto event = std::move(events_.front());
    events_.pop_front();
    event();
  }
}

void PairWorld::Decode::anchored(std::uint64_t id) {
  const auto it = live_.find(id);
  if (it == live_.end() || !it->second.in_transfer) return;
  ++world_->coverage_->anchored;
  if (world_->draw_.percent(10)) return;  // The request does not want drafts.
  it->second.drafting = true;
  check_anchors(id, it->second);
  batcher_.anchored(id, static_cast<int>(world_->draw_.between(1, 8)));
}

void PairWorld::Decode::anchors_lost(std::uint64_t id) {
  const auto it = live_.find(id);
  if (it != live_.end()) {
    ++world_->coverage_->anchors_lost;
    world_->coverage_->died_between += it->second.drafts > 0 ? 1 : 0;
    drop_drafts(it->second);
    batcher_.anchors_lost(id);
  }
  desk_.anchors_let_go(id, &commands_);
  carry_out();
}

void PairWorld::Decode::drop_drafts(Live& live) {
  live.drafting = false;
  live.drafts = 0;
}

// The longest right prefix of the drafts, and one token more.
void PairWorld::Decode::verify(const PassItem& item) {
  const std::uint64_t id = item.sequence.request;
  Live& live = live_.at(id);
  if (item.start + 1 != live.shape.prompt_tokens + live.generated || item.count - 1 > live.drafts) {
    return world_->fail("a verification out of place");
  }
  int right = 0;
  while (right < item.count - 1 && world_->draw_.percent(70)) ++right;
  world_->coverage_->accepted += static_cast<std::uint64_t>(right);
  world_->coverage_->rolled_back += static_cast<std::uint64_t>(live.drafts - right);
  live.drafts = 0;
  for (int token = 0; token <= right; ++token) {
    take_token(id);
    if (live_.count(id) == 0) return;
  }
  batcher_.accepted(item.sequence, right);
}

// What drafts read: Anchors, and units that came whole.
void PairWorld::Decode::check_anchors(std::uint64_t id, const Live& live) {
  for (int block = 0; block < kv::blocks_for(live.shape.prompt_tokens); ++block) {
    for (int layer = 0; layer < kSimLayers; ++layer) {
      for (const Part part : {Part::kK, Part::kV}) {
        const UnitKey unit = world_->first_unit(live.shape.prompt_tokens, layer, block, part);
        auto& memory = has_residual(unit) ? anchors_ : memory_;
        if (memory[{live.table.blocks()[static_cast<std::size_t>(block)], layer, part}] !=
            content_of(id, unit, world_->plan_.unit_bytes_max).bytes) {
          return world_->fail("request " + std::to_string(id) + " drafts on wrong Anchors");
        }
      }
    }
  }
}

void PairWorld::Decode::check_nobody_reads(kv::BlockId block) {
  for (const auto& [id, live] : live_) {
    const std::vector<kv::BlockId>& blocks = live.table.blocks();
    if (live.drafting && std::find(blocks.begin(), blocks.end(), block) != blocks.end()) {
      world_->fail("a transfer writes what request " + std::to_string(id) + " drafts on");
    }
  }
}

}  // namespace lynx::sim
