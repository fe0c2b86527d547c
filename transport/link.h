#pragma once

// Messages between nodes, as the rest of Lynx sees them: no UCX type leaves ucx_link*.cpp. A Link owns one progress thread;
// everything a LinkHandler is told happens on it, one call at a time. In-process implementations serve tests and the simulator.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "transport/wire_header.h"

namespace lynx::transport {

using PeerId = std::uint64_t;

/// Where a node's lanes listen: opaque bytes (UCX worker addresses) that travel over the control plane; [lane].
struct LinkAddress {
  std::vector<std::string> lanes;
};

/// Called on the progress thread; must not block. May call the link.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  /// A message came in on `lane`. `header` and `payload` are untrusted and valid during the call only.
  virtual void on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) = 0;
  /// The payload given to send() is no longer used. Not a sign that it arrived.
  virtual void on_sent(std::uint64_t token, const Status& status) = 0;
  /// The peer is gone (its endpoints failed); later sends to it fail. Comes once.
  virtual void on_peer_lost(PeerId peer, const Status& why) = 0;
  /// After wake(), and at the latest at the time the last call returned (steady clock, µs; INT64_MAX = never). Returns the next
  /// such time.
  virtual std::int64_t on_tick(std::int64_t now_us) = 0;
};

/// What the link turned out to use, for logs, metrics and --require-transport.
struct LinkInfo {
  std::string library;    ///< "UCX 1.22.0"
  std::string transport;  ///< "tcp", "shm", "rc" …; empty while no peer is connected.
  std::string device;     ///< "eth0", "memory" …
};

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkAddress address() const = 0;          ///< Any thread.
  virtual std::string library_version() const = 0;  ///< "1.22.0": both nodes must have the same. Any thread.

  /// Memory that the link has registered, for payloads; it lives as long as the link. Before start(). RESOURCE_EXHAUSTED naming
  /// the size (and the memlock limit where that is why).
  virtual Result<std::span<std::byte>> allocate(std::size_t bytes) = 0;

  /// Starts the progress thread. Once.
  virtual void start(LinkHandler* handler) = 0;
  /// Stops it; no handler call is under way or comes afterwards. Idempotent.
  virtual void stop() = 0;
  /// Any thread: on_tick() soon.
  virtual void wake() = 0;
  /// The clock of on_tick(); the simulator has its own. Any thread.
  virtual std::int64_t now_us() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Progress thread only.

  /// Endpoints to a peer, one a lane. UNAVAILABLE or INVALID_ARGUMENT (an address of another UCX version or transport) naming the
  /// reason.
  virtual Result<PeerId> connect(const LinkAddress& peer) = 0;
  /// Drops the endpoints; sends under way end with CANCELLED.
  virtual void disconnect(PeerId peer) = 0;
  /// Queues one message of header + payload. The payload must stay until on_sent(token).
  virtual void send(PeerId peer, Lane lane, const WireBytes& header, std::span<const std::byte> payload, std::uint64_t token) = 0;
  virtual LinkInfo info(PeerId peer) const = 0;
};

}  // namespace lynx::transport
