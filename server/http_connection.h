#pragma once

// Included by http_server.cpp and http_connection.cpp only: everything here is Asio's and runs on the I/O thread.

#include <utility>  // Beast 1.74 uses std::exchange without including it.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_exchange.h"
#include "server/http_input.h"
#include "server/http_message.h"
#include "server/http_server.h"

namespace lynx::server {

/// What the connections of one server share.
struct HttpServerState {
  boost::asio::io_context io{1};
  HttpLimits limits;
  HttpHandler* handler = nullptr;
  std::size_t request_bytes = 0;  ///< Held for requests being read or answered.
  std::atomic<bool> draining{false};
  std::atomic<int> connections{0};
  std::atomic<int> exchanges{0};
  std::atomic<std::uint64_t> overflows{0};
  std::atomic<std::uint64_t> disconnects{0};
};

/// One client's connection. Two coroutines: pump() always keeps a read pending, so that a disconnect is seen in every state;
/// serve() reads requests from what the pump has buffered and writes the answers, one after the other.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Clock = std::chrono::steady_clock;

  HttpConnection(HttpServerState& state, Socket socket);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Spawns the coroutines; they keep the connection alive. `refuse`: answers 503 and closes (too many connections).
  void start(bool refuse);
  /// Aborts the exchange and closes the socket.
  void shut();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class ReadResult { kDone, kClosed, kTimeout, kFailed };
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  static Awaitable<void> run_pump(std::shared_ptr<HttpConnection> self);
  static Awaitable<void> run_serve(std::shared_ptr<HttpConnection> self, bool refuse_at_once);
  Awaitable<void> pump();
  Awaitable<void> serve();
  Awaitable<bool> serve_one();
  Awaitable<bool> read_request(Parser& parser);
  Awaitable<ReadResult> feed(Parser& parser, bool whole, Clock::time_point deadline);
  Awaitable<bool> answer(HttpRequest request, bool http10, bool keep_alive);
  /// `message` and `bytes` outlive the call.
  Awaitable<void> refuse(int status, std::string_view message);
  Awaitable<bool> write(std::string_view bytes);
  Awaitable<bool> wait(Clock::time_point deadline);
  Awaitable<void> linger();
  std::pair<int, std::string> refusal(ReadResult result) const;
  void wake();
  void close();
  bool charge_memory();

  HttpServerState& state_;
  Socket socket_;
  boost::asio::steady_timer signal_;       ///< Wakes serve(): cancelled by wake(), expires at the deadline.
  boost::asio::steady_timer write_timer_;  ///< Closes the socket under a write that makes no progress.
  bool signalled_ = false;
  bool eof_ = false;
  bool discard_input_ = false;
  bool writing_ = false;
  boost::beast::error_code parse_error_;
  HttpInput input_;
  std::string client_request_id_;
  std::size_t body_bytes_ = 0;     ///< Of the request being read or answered.
  std::size_t charged_bytes_ = 0;  ///< This connection's part of HttpServerState::request_bytes.
  std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace lynx::server
