#pragma once

// The decode node's end of the control plane to one prefill node: connects, says hello, and connects again when it was lost.

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"

namespace lynx::server {

/// Names one connection of a client; they count from 1.
using ConnectionId = std::uint64_t;

/// Called on gRPC's threads and the client's own, one call at a time for each node. Must not block.
class PairClientEvents {
 public:
  virtual ~PairClientEvents() = default;
  virtual v1::NodeHello hello() = 0;
  /// The node answered, on this connection. Not OK: it does not fit, and is left.
  virtual Status on_hello(int node, ConnectionId connection, const v1::NodeHello& peer) = 0;
  virtual void on_message(int node, v1::PrefillMessage message) = 0;
  /// The connection ended, or could not be made. The client will try again.
  virtual void on_lost(int node, const Status& why) = 0;
};

class PairClient {
 public:
  /// `address` is HOST:PORT. `events` is not owned and outlives the client.
  PairClient(int node, std::string address, std::string secret, PairClientEvents* events);
  ~PairClient();  ///< stop().

  void start();
  /// Any thread. Dropped when that connection is over: what was meant for a peer before its loss does not reach it after it.
  void send(ConnectionId connection, v1::DecodeMessage message);
  void reset(const Status& why);  ///< Any thread: ends this connection; another one follows.
  void stop();                    ///< No call of `events` afterwards. Idempotent.

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
