#pragma once

// One node's Link in the simulated network.

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_network.h"

namespace lynx::sim {

class SimLink final : public transport::Link {
 public:
  SimLink(SimNetwork* network, NodeId id) : network_(network), id_(id) {}

  transport::LinkAddress address() const override { return {{std::to_string(id_), std::to_string(id_)}}; }
  std::string library_version() const override { return "sim"; }
  Result<std::span<std::byte>> allocate(std::size_t bytes) override;
  void start(transport::LinkHandler* handler) override;
  void stop() override { handler_ = nullptr; }
  void wake() override;
  std::int64_t now_us() const override { return network_->clock().now_us(); }
  Result<transport::PeerId> connect(const transport::LinkAddress& peer) override;
  void disconnect(transport::PeerId peer) override;
  void send(transport::PeerId peer, transport::Lane lane, const transport::WireBytes& header, std::span<const std::byte> payload,
            std::uint64_t token) override;
  transport::LinkInfo info(transport::PeerId peer) const override;

  bool alive() const { return handler_ != nullptr; }
  transport::LinkHandler* handler() { return handler_; }
  void node_died(NodeId node);

 private:
  struct Outgoing {
    transport::PeerId peer = 0;
    std::span<const std::byte> payload;  ///< The sender's memory …
    std::vector<std::byte> copy;         ///< … and what it held at send().
    bool finished = false;
  };

  void tick();
  void finish(std::uint64_t token, const std::shared_ptr<Outgoing>& outgoing, const Status& status);

  SimNetwork* network_;
  NodeId id_;
  transport::LinkHandler* handler_ = nullptr;
  std::vector<std::vector<std::byte>> memory_;
  std::map<transport::PeerId, NodeId> peers_;
  transport::PeerId next_peer_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Outgoing>> outgoing_;  ///< By token: not yet told on_sent().
  bool woken_ = false;
  std::int64_t tick_at_us_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace lynx::sim
