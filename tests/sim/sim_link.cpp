#include "tests/sim/sim_link.h"

#include <algorithm>
#include <utility>

#include "tests/catch.h"

namespace lynx::sim {

using transport::Lane;
using transport::LinkAddress;
using transport::LinkHandler;
using transport::PeerId;
using transport::WireBytes;

Result<std::span<std::byte>> SimLink::allocate(std::size_t bytes) {
  REQUIRE(handler_ == nullptr);
  return std::span<std::byte>(memory_.emplace_back(bytes));
}

void SimLink::start(LinkHandler* handler) {
  handler_ = handler;
  wake();
}

void SimLink::wake() {
  if (woken_ || handler_ == nullptr) return;
  woken_ = true;
  network_->clock().after(1, [this] { tick(); });
}

void SimLink::tick() {
  woken_ = false;
  if (handler_ == nullptr) return;
  tick_at_us_ = handler_->on_tick(now_us());
  if (tick_at_us_ == std::numeric_limits<std::int64_t>::max()) return;
  network_->clock().at(std::max(tick_at_us_, now_us() + 1), [this, wanted = tick_at_us_] {
    if (wanted == tick_at_us_) tick();
  });
}

Result<PeerId> SimLink::connect(const LinkAddress& peer) {
  if (peer.lanes.size() != transport::kLanes) return invalid_argument("an address of another link");
  const NodeId node = std::stoull(peer.lanes[0]);
  const PeerId id = next_peer_++;
  peers_[id] = node;
  if (!network_->links_.at(node)->alive()) network_->clock().after(50'000, [this, node] { node_died(node); });
  return id;
}

void SimLink::disconnect(PeerId peer) {
  if (peers_.erase(peer) == 0) return;
  for (auto& [token, outgoing] : outgoing_) {
    if (outgoing->peer != peer) continue;
    network_->clock().after(1, [this, each = token, outgoing] { finish(each, outgoing, {Code::kCancelled, "disconnected"}); });
  }
}

void SimLink::node_died(NodeId node) {
  for (const auto& [peer, its_node] : peers_) {
    if (its_node != node) continue;
    if (handler_ != nullptr) handler_->on_peer_lost(peer, {Code::kUnavailable, "node died"});
    return;
  }
}

void SimLink::send(PeerId peer, Lane lane, const WireBytes& header, std::span<const std::byte> payload, std::uint64_t token) {
  auto outgoing = std::make_shared<Outgoing>(Outgoing{peer, payload, {payload.begin(), payload.end()}});
  REQUIRE(outgoing_.emplace(token, outgoing).second);
  auto found = peers_.find(peer);
  REQUIRE(found != peers_.end());
  const NodeId to = found->second;
  if (network_->observer_ != nullptr) network_->observer_->on_send(id_, to, header, payload);
  const std::int64_t departure = network_->departure(id_, to, header.size() + payload.size());
  network_->clock().at(departure, [this, to, lane, header, token, outgoing] {
    if (outgoing->finished || handler_ == nullptr) return;
    network_->transmit({id_, to, lane, {header.begin(), header.end()}, outgoing->copy});
    network_->clock().after(network_->upto(network_->faults_.sent_late_us),
                            [this, token, outgoing] { finish(token, outgoing, {}); });
  });
}

void SimLink::finish(std::uint64_t token, const std::shared_ptr<Outgoing>& outgoing, const Status& status) {
  if (outgoing->finished || handler_ == nullptr) return;
  outgoing->finished = true;
  outgoing_.erase(token);
  // A real link may read the payload until now.
  if (!std::equal(outgoing->payload.begin(), outgoing->payload.end(), outgoing->copy.begin()))
    FAIL("a payload changed before on_sent()");
  handler_->on_sent(token, status);
}

transport::LinkInfo SimLink::info(PeerId) const {
  return {"sim", "virtual", "seed"};
}

}  // namespace lynx::sim
