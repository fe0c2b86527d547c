#pragma once

// The prefill node's end of the control plane: any number of decode nodes, each a session that lasts as long as its stream.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"
#include "server/grpc_server.h"
#include "server/kv_sender.h"

namespace lynx::server {

/// Called on gRPC's threads: in order within a session, several sessions at once. Must not block.
class PairServerEvents {
 public:
  virtual ~PairServerEvents() = default;
  /// A peer with the right secret says hello. The answer is our hello, or the refusal that it gets.
  virtual Result<v1::NodeHello> on_hello(SessionId session, const v1::NodeHello& peer) = 0;
  virtual void on_message(SessionId session, const v1::DecodeMessage& message) = 0;
  /// The session is over. Once for each whose hello was accepted.
  virtual void on_closed(SessionId session) = 0;
};

class PairServer {
 public:
  /// `secret`: what a peer must show; empty lets everybody in. `events` is not owned and outlives the gRPC server.
  PairServer(std::string secret, PairServerEvents* events);
  ~PairServer();

  GrpcService service();

  // Any thread; unknown sessions are ignored.
  void send(SessionId session, v1::PrefillMessage message);
  void send_to_all(const v1::PrefillMessage& message);
  void close(SessionId session, const Status& why);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
