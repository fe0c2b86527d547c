#pragma once

// One prefill node and some decode nodes over a simulated network, good unless told otherwise, with recorders for everything that
// happens.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "tests/catch.h"
#include "tests/sim/sim_network.h"

namespace lynx::sim {

/// Units of this size, each one chunk.
inline constexpr std::uint32_t kUnit = 1000;

inline server::KvSenderOptions sending() {
  server::KvSenderOptions options;
  options.unit_bytes_max = kUnit;
  options.chunk_bytes = kUnit;
  options.high_window_bytes = 64 * kUnit;
  options.background_window_bytes = 8 * kUnit;
  options.pool_bytes = 400 * 1024;
  return options;
}

inline server::KvReceiverOptions receiving() {
  server::KvReceiverOptions options;
  options.unit_bytes_max = kUnit;
  options.pool_bytes = 64 * 1024;
  return options;
}

struct SenderLog final : server::KvSenderEvents {
  std::vector<std::string> lines;
  std::map<std::uint64_t, std::string> ended;  ///< request → "delivered" or "closed".
  void on_connected(server::SessionId session, const Status& status) override {
    lines.push_back("connected " + std::to_string(session) + (status.ok() ? "" : ": " + status.to_string()));
  }
  void on_session_lost(server::SessionId session, const Status&) override { lines.push_back("lost " + std::to_string(session)); }
  void on_silence(server::SessionId session) override { lines.push_back("silence " + std::to_string(session)); }
  void on_delivered(const transport::TicketId& ticket) override { end(ticket, "delivered"); }
  void on_closed(const transport::TicketId& ticket) override { end(ticket, "closed"); }
  void end(const transport::TicketId& ticket, const std::string& how) { CHECK(ended.emplace(ticket.request, how).second); }
};

struct ReceiverLog final : server::KvReceiverEvents {
  std::vector<std::string> lines;
  std::map<std::uint64_t, std::string> ended;  ///< request → "complete", "failed" or "retired"; the last one.
  std::map<std::uint64_t, int> anchored;       ///< How often.
  void on_connected(server::SessionId session, const Status& status) override {
    lines.push_back("connected " + std::to_string(session) + (status.ok() ? "" : ": " + status.to_string()));
  }
  void on_session_lost(server::SessionId session, const Status&) override { lines.push_back("lost " + std::to_string(session)); }
  void on_complete(const transport::TicketId& ticket, const transport::TransferBytes&) override {
    ended[ticket.request] = "complete";
  }
  void on_anchored(const transport::TicketId& ticket) override {
    CHECK(ended.count(ticket.request) == 0);
    ++anchored[ticket.request];
  }
  void on_failed(const transport::TicketId& ticket, const Status& why) override {
    ended[ticket.request] = "failed: " + why.message();
  }
  void on_retired(const transport::TicketId& ticket) override { ended[ticket.request] = "retired"; }
};

/// Units full of one byte each: the block's number.
struct PlainSource final : server::UnitSource {
  std::uint32_t bytes = 0;
  explicit PlainSource(std::uint32_t unit_bytes) : bytes(unit_bytes) {}
  Coded read(const transport::UnitKey& unit, std::span<std::byte> out) override {
    std::fill(out.begin(), out.begin() + bytes, static_cast<std::byte>(unit.block));
    return {transport::Plane::kBf16, bytes};
  }
};

struct PlainSink final : server::UnitSink {
  std::size_t bytes = 0;
  int units = 0;
  Status place(const transport::UnitKey& unit, std::span<const std::byte> content) override {
    for (std::byte byte : content) {
      if (byte != static_cast<std::byte>(unit.block)) return {Code::kDataLoss, "wrong byte"};
    }
    bytes += content.size();
    ++units;
    return {};
  }
};

class TransferFixture {
 public:
  struct Decode {
    NodeId node = 0;
    transport::Link* link = nullptr;
    ReceiverLog log;
    std::unique_ptr<server::KvReceiver> receiver;
  };

  TransferFixture(const server::KvSenderOptions& sending, const server::KvReceiverOptions& receiving, int decode_nodes,
                  SimObserver* observer = nullptr, const SimFaults& faults = {})
      : network(&clock, 1, faults, observer), decodes(static_cast<std::size_t>(decode_nodes)) {
    link = network.add_node(&node);
    auto made = server::KvSender::create(sending, link, &log);
    REQUIRE(made.ok());
    sender = std::move(*made);
    link->start(sender.get());
    for (std::size_t i = 0; i < decodes.size(); ++i) {
      decodes[i].link = network.add_node(&decodes[i].node);
      auto receiver = server::KvReceiver::create(receiving, decodes[i].link, &decodes[i].log);
      REQUIRE(receiver.ok());
      decodes[i].receiver = std::move(*receiver);
      decodes[i].link->start(decodes[i].receiver.get());
      sender->connect(i, decodes[i].link->address());
      decodes[i].receiver->connect(i, link->address());
    }
    run_for(1'000);
  }

  /// A ticket of `blocks` × K and V of one layer to decode node `to`; opened, and finished.
  std::shared_ptr<PlainSink> send(std::size_t to, std::uint64_t request, int blocks, std::uint32_t unit_bytes,
                                  transport::Lane lane = transport::Lane::kHigh) {
    auto sink = std::make_shared<PlainSink>();
    const transport::TicketId id{7, request};
    decodes[to].receiver->expect(to, {id, kSecret, 1, blocks, {transport::Plane::kBf16}, unit_bytes}, sink);
    sender->open({to, id, kSecret, unit_bytes, 0}, std::make_shared<PlainSource>(unit_bytes));
    std::vector<transport::UnitKey> units;
    for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(blocks); ++block) {
      for (transport::Part part : {transport::Part::kK, transport::Part::kV}) {
        units.push_back({0, part, transport::Plane::kBf16, block});
      }
    }
    sender->add_units(id, lane, units);
    sender->finish(id);
    return sink;
  }

  void run_for(std::int64_t us) {
    bool over = false;
    clock.after(us, [&over] { over = true; });
    while (!over) REQUIRE(clock.step());
  }
  /// Until nothing is left to happen.
  void run_to_rest() {
    while (clock.step()) REQUIRE(clock.now_us() < 1'000'000'000);
  }

  static constexpr transport::TicketSecret kSecret{1, 2, 3};

  SimClock clock;
  SimNetwork network;
  NodeId node = 0;
  transport::Link* link = nullptr;
  SenderLog log;
  std::unique_ptr<server::KvSender> sender;
  std::vector<Decode> decodes;
};

}  // namespace lynx::sim
