#include "tests/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "tests/sim/sim_link.h"

namespace lynx::sim {

using transport::Lane;

namespace {

constexpr std::size_t kPastMax = 200;

}  // namespace

void SimClock::at(std::int64_t time_us, std::function<void()> event) {
  events_.push({std::max(time_us, now_us_), next_order_++, std::move(event)});
}

bool SimClock::step() {
  if (events_.empty()) return false;
  Event event = events_.top();
  events_.pop();
  now_us_ = event.time_us;
  event.run();
  return true;
}

SimNetwork::SimNetwork(SimClock* clock, std::uint32_t seed, const SimFaults& faults, SimObserver* observer)
    : clock_(clock), random_(seed), faults_(faults), observer_(observer) {}

SimNetwork::~SimNetwork() = default;

transport::Link* SimNetwork::add_node(NodeId* id, NodeId successor_of) {
  *id = next_node_++;
  if (successor_of != 0) successors_[successor_of] = *id;
  return (links_[*id] = std::make_unique<SimLink>(this, *id)).get();
}

void SimNetwork::kill(NodeId id, std::int64_t told_after_us) {
  links_.at(id)->stop();
  if (told_after_us < 0) return;
  for (auto& [other, link] : links_) {
    clock_->after(told_after_us + upto(told_after_us), [peer = link.get(), id] { peer->node_died(id); });
  }
}

void SimNetwork::stall(NodeId a, NodeId b, std::int64_t until_us) {
  std::int64_t& until = stalls_[std::minmax(a, b)];
  until = std::max(until, until_us);
}

std::int64_t SimNetwork::stalled_until(NodeId a, NodeId b) const {
  auto it = stalls_.find(std::minmax(a, b));
  return it == stalls_.end() ? 0 : it->second;
}

// When the last byte of a message sent now leaves.
std::int64_t SimNetwork::departure(NodeId from, NodeId to, std::size_t bytes) {
  std::int64_t& free_us = wire_free_us_[{from, to}];
  free_us = std::max({free_us, clock_->now_us(), stalled_until(from, to)});
  if (faults_.bytes_per_ms > 0) free_us += static_cast<std::int64_t>(bytes) * 1000 / faults_.bytes_per_ms;
  return free_us;
}

void SimNetwork::inject(NodeId to, Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) {
  deliver_at(clock_->now_us(), {0, to, lane, {header.begin(), header.end()}, {payload.begin(), payload.end()}});
}

void SimNetwork::damage(std::vector<std::byte>& bytes) {
  if (bytes.empty()) return;
  bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1U << (random_() % 8));
}

void SimNetwork::transmit(Message message) {
  if (happens(faults_.replay) && !past_.empty()) {
    Message old = past_[random_() % past_.size()];
    for (auto it = successors_.find(old.to); it != successors_.end(); it = successors_.find(old.to)) old.to = it->second;
    deliver_at(clock_->now_us() + faults_.delay_us + upto(faults_.jitter_us), std::move(old));
  }
  past_.push_back(message);
  // The oldest go at random, so that some very old ones stay.
  if (past_.size() > kPastMax) past_.erase(past_.begin() + static_cast<std::ptrdiff_t>(random_() % past_.size()));
  if (happens(faults_.loss) || (lose_ && lose_(message.header))) return;
  const int copies = happens(faults_.duplicate) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    Message each = message;
    if (happens(faults_.damage_payload)) damage(each.payload);
    if (happens(faults_.damage_header)) damage(each.header);
    std::int64_t arrival =
        std::max(clock_->now_us(), stalled_until(each.from, each.to)) + faults_.delay_us + upto(faults_.jitter_us);
    if (!happens(faults_.reorder)) {
      std::int64_t& last = last_arrival_us_[{each.from, each.to, each.lane}];
      last = arrival = std::max(arrival, last);
    }
    deliver_at(arrival, std::move(each));
  }
}

void SimNetwork::deliver_at(std::int64_t time_us, Message message) {
  clock_->at(time_us, [this, message = std::move(message)] {
    SimLink& to = *links_.at(message.to);
    if (!to.alive()) return;
    if (observer_ != nullptr) observer_->on_deliver(message.from, message.to, message.header, message.payload);
    to.handler()->on_message(message.lane, message.header, message.payload);
  });
}

}  // namespace lynx::sim
