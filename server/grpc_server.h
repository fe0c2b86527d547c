#pragma once

// A gRPC server: services, standard health and reflection on one port. No gRPC type in this header, which is why it compiles fast.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace lynx::server {

struct GrpcService {
  std::string name;  ///< With its package: "lynx.v1.Inference".
  grpc::Service* service = nullptr;
};

/// What a client can cost at most.
struct GrpcLimits {
  std::size_t message_bytes = std::size_t{8} << 20;      ///< Beyond: RESOURCE_EXHAUSTED. As HttpLimits::body_bytes.
  std::size_t transport_bytes = std::size_t{256} << 20;  ///< Of messages on their way through gRPC, over all connections.
  int streams_per_connection = 1024;                     ///< Calls beyond wait at the client.
  int keepalive_time_ms = 60'000;                        ///< A peer that vanished without a word is noticed after these two.
  int keepalive_timeout_ms = 20'000;
  int least_ping_interval_ms = 10'000;  ///< A client that pings more often is cut off.
};

class GrpcServer {
 public:
  /// Binds, listens and serves; port 0 takes a free one. UNAVAILABLE naming host and port when that fails (a port that another
  /// process serves is never shared). `services` outlive the server. Health of all of them, and of "", is NOT_SERVING until
  /// set_serving(true).
  static Result<std::unique_ptr<GrpcServer>> start(const std::string& host, int port, const std::vector<GrpcService>& services,
                                                   const GrpcLimits& limits = {});
  virtual ~GrpcServer() = default;  ///< stop().

  /// False once a connection could not be accepted (too many open files): gRPC gives its listener up for good then, and only a new
  /// process helps. Of all servers of this process; any thread.
  static bool accepts();

  virtual int port() const = 0;
  virtual void set_serving(bool serving) = 0;  ///< Any thread.
  /// Refuses new calls, cancels those that run and waits until their handlers are done. Idempotent.
  virtual void stop() = 0;
};

}  // namespace lynx::server
