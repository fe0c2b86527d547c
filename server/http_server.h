#pragma once

// An HTTP/1.1 server: one I/O thread owns every socket; handlers answer through responders from any thread. Boost.Beast and Asio
// stay inside http_server.cpp and http_connection.cpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "server/http_message.h"

namespace lynx::server {

/// What a client can cost at most.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{32} << 10;          ///< Beyond: 431.
  std::size_t body_bytes = std::size_t{8} << 20;             ///< Beyond: 413. 8 MiB is about two million tokens of text.
  std::size_t total_request_bytes = std::size_t{256} << 20;  ///< Of all requests not yet answered; beyond: 503.
  std::size_t stream_buffer_bytes = std::size_t{1} << 20;
  int connections = 2048;                            ///< Beyond: 503 and closed.
  std::chrono::milliseconds header_timeout{10'000};  ///< From the head's first byte to its last; beyond: 408.
  std::chrono::milliseconds body_timeout{60'000};    ///< Beyond: 408.
  std::chrono::milliseconds idle_timeout{90'000};    ///< Between requests; longer than the 60 s of common proxies.
  std::chrono::milliseconds write_timeout{60'000};   ///< One write that makes no end.
  std::chrono::milliseconds heartbeat{10'000};       ///< Silence after which a stream that asked for it gets a comment.
};

/// A snapshot for /metrics.
struct HttpStats {
  int connections = 0;
  int exchanges = 0;  ///< Requests read and not yet answered.
  std::uint64_t overflows_total = 0;
  std::uint64_t disconnects_total = 0;  ///< Clients that left before their answer was complete.
};

class HttpServer {
 public:
  /// Binds and listens; port 0 takes a free one. UNAVAILABLE naming host and port when that fails. Serves after start().
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, int port, const HttpLimits& limits);
  /// stop().
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  /// Runs tasks on the I/O thread.
  virtual TaskRunner& io() = 0;

  /// `handler` must live until stop() has returned.
  virtual void start(HttpHandler& handler) = 0;
  /// From now on every response ends its connection; connections are still accepted. Any thread.
  virtual void begin_drain() = 0;
  /// Aborts what is still open, runs the abort callbacks, ends the I/O thread. Idempotent.
  virtual void stop() = 0;

  virtual HttpStats stats() const = 0;  ///< Any thread.
};

}  // namespace lynx::server
