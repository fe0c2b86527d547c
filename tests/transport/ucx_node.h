#pragma once

// One end of a UCX link with a handler that records everything, driven from the test's thread.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/ucx_link.h"

namespace lynx::transport {

struct UcxMessage {
  Lane lane;
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

/// What a node has seen.
struct UcxRecord {
  std::vector<UcxMessage> messages;
  std::map<std::uint64_t, std::vector<Status>> sent;  ///< By token.
  std::vector<PeerId> lost;
  int ticks = 0;
};

class UcxNode final : private LinkHandler {
 public:
  /// Fails the test if the link cannot be had. `start`: at once.
  explicit UcxNode(const UcxLinkOptions& options, bool start = true);
  ~UcxNode() override;

  Link& link() { return *link_; }
  void start() { link_->start(this); }
  void stop() { link_->stop(); }

  /// Runs `command` on the progress thread, and waits for it.
  void run(const std::function<void(Link&)>& command);
  Result<PeerId> try_connect(const LinkAddress& address);
  PeerId connect(const LinkAddress& address);
  void disconnect(PeerId peer);
  LinkInfo info(PeerId peer);
  /// Queues a message; the payload is kept until the node ends.
  void send(PeerId peer, Lane lane, const WireBytes& header, std::vector<std::byte> payload, std::uint64_t token);
  /// Several at once, without the test's thread in between.
  void send_all(PeerId peer, const std::vector<UcxMessage>& messages, std::uint64_t first_token);

  /// Waits until `condition` holds; fails the test if it never does (a guard against hanging, minutes).
  /// Whether it comes true within that time.
  bool comes_within(std::chrono::seconds time, const std::function<bool(const UcxRecord&)>& condition);
  void wait_until(const std::string& what, const std::function<bool(const UcxRecord&)>& condition);
  UcxRecord record() const;
  /// CPU time of the progress thread so far.
  std::int64_t cpu_us();
  void ask_for_tick(std::int64_t at_us);

 private:
  void on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) override;
  void on_sent(std::uint64_t token, const Status& status) override;
  void on_peer_lost(PeerId peer, const Status& why) override;
  std::int64_t on_tick(std::int64_t now_us) override;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  UcxRecord record_;
  std::deque<std::function<void(Link&)>> commands_;
  std::int64_t next_tick_us_ = std::numeric_limits<std::int64_t>::max();
  std::deque<std::vector<std::byte>> payloads_;
  std::unique_ptr<Link> link_;
};

/// The transports that tests run over, both within this machine.
UcxLinkOptions tcp_options();
UcxLinkOptions shm_options();

/// A message whose bytes all follow from (lane, sequence, seed); `payload_bytes` long.
UcxMessage make_message(Lane lane, std::uint32_t sequence, std::uint32_t seed, std::size_t payload_bytes);
WireBytes wire_bytes(const UcxMessage& message);

}  // namespace lynx::transport
