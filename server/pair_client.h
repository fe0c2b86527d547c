#pragma once

// The decode node's end of the control plane to one prefill node: connects, says hello, and connects again when it was lost.

#include <memory>
#include <string>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"

namespace lynx::server {

/// Called on gRPC's threads and the client's own, one call at a time for each node. Must not block.
class PairClientEvents {
 public:
  virtual ~PairClientEvents() = default;
  virtual v1::NodeHello hello() = 0;
  /// The node answered. Not OK: it does not fit, and is left.
  virtual Status on_hello(int node, const v1::NodeHello& peer) = 0;
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
  void send(v1::DecodeMessage message);  ///< Any thread; dropped while there is no connection.
  void reset(const Status& why);         ///< Any thread: ends this connection; another one follows.
  void stop();                           ///< No call of `events` afterwards. Idempotent.

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
