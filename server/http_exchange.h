#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/http_message.h"

namespace lynx::server {

/// One request's answer on its way from a handler (any thread) to the connection (I/O thread). Holds at most `buffer_limit` bytes
/// of a stream that the client has not taken yet, and twice what was written in bulk; what goes beyond aborts this response and
/// nobody else's.
class HttpExchange final : public Responder {
 public:
  /// `wake` is called from any thread when there is something to take; several calls may be merged into one.
  HttpExchange(std::size_t buffer_limit, std::function<void()> wake);

  bool send(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  bool write(std::string piece) override;
  bool write_bulk(std::string piece) override;
  void end_stream() override;
  void set_heartbeat(HttpResponse head, std::string comment) override;
  void on_abort(std::function<void()> callback) override;
  bool aborted() const override;

  /// What the connection has to write next, in this order.
  struct Output {
    std::optional<HttpResponse> whole;
    std::optional<HttpResponse> stream_head;
    std::vector<std::string> pieces;
    bool complete = false;    ///< Nothing follows.
    bool overflowed = false;  ///< The client reads too slowly: abort.
  };
  Output take();
  /// Bytes of pieces that the socket has accepted: they no longer count against the limit.
  void written(std::size_t bytes);
  /// Nothing was written for a while: queues the heartbeat comment, if one was set.
  void heartbeat();
  /// The response cannot be delivered; runs the abort callback unless the response is complete already.
  void abort();
  bool complete() const;

 private:
  enum class State { kOpen, kStreaming, kComplete, kAborted };

  void begin_stream_locked(HttpResponse head);
  void push(std::string piece);
  void wake_unlocked(std::unique_lock<std::mutex>& lock);

  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // guards everything below
  State state_ = State::kOpen;
  Output pending_;
  std::size_t buffer_limit_;
  std::size_t buffered_bytes_ = 0;
  bool wake_pending_ = false;
  std::optional<HttpResponse> heartbeat_head_;
  std::string heartbeat_comment_;
  std::function<void()> abort_callback_;
};

}  // namespace lynx::server
