#include "server/http_connection.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <ctime>
#include <vector>

namespace lynx::server {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;

namespace {

// GCC 12 miscompiles some expressions that contain co_await (loop conditions, temporaries with destructors): here every co_await is
// a statement of its own, over named variables.

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
constexpr std::chrono::milliseconds kLingerTimeout{1000};

std::string chunk(const std::string& piece) {
  return fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
}

std::string serialize_output(const HttpExchange::Output& output, bool head_only, bool http10, bool keep_alive) {
  std::string bytes;
  if (output.whole) {
    bytes =
        serialize_head(*output.whole, head_only ? BodyFraming::kHeadOnly : BodyFraming::kLength, keep_alive, std::time(nullptr));
    if (!head_only) bytes += output.whole->body;
  }
  if (output.stream_head) {
    bytes =
        serialize_head(*output.stream_head, http10 ? BodyFraming::kToEnd : BodyFraming::kChunked, keep_alive, std::time(nullptr));
  }
  for (const std::string& piece : output.pieces) bytes += http10 ? piece : chunk(piece);
  if (output.complete && !output.whole && !http10) bytes += "0\r\n\r\n";
  return bytes;
}

}  // namespace

HttpConnection::HttpConnection(HttpServerState& state, Socket socket)
    : state_(state), socket_(std::move(socket)), signal_(state.io), write_timer_(state.io) {
  state_.connections.fetch_add(1);
}

HttpConnection::~HttpConnection() {
  state_.request_bytes -= charged_bytes_;
  state_.connections.fetch_sub(1);
}

void HttpConnection::start(bool refuse_at_once) {
  error_code ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);
  net::co_spawn(state_.io, run_pump(shared_from_this()), net::detached);
  net::co_spawn(state_.io, run_serve(shared_from_this(), refuse_at_once), net::detached);
}

HttpConnection::Awaitable<void> HttpConnection::run_pump(std::shared_ptr<HttpConnection> self) {
  co_await self->pump();
}

HttpConnection::Awaitable<void> HttpConnection::run_serve(std::shared_ptr<HttpConnection> self, bool refuse_at_once) {
  if (refuse_at_once) {
    co_await self->refuse(503, "too many connections");
  } else {
    co_await self->serve();
  }
  self->close();
}

void HttpConnection::shut() {
  if (exchange_) exchange_->abort();
  close();
}

void HttpConnection::close() {
  error_code ignored;
  socket_.close(ignored);
  eof_ = true;
  wake();
}

void HttpConnection::wake() {
  signalled_ = true;
  signal_.cancel();
}

/// True when woken, false at the deadline. Only serve() waits.
HttpConnection::Awaitable<bool> HttpConnection::wait(Clock::time_point deadline) {
  if (!signalled_) {
    error_code error;
    signal_.expires_at(deadline);
    co_await signal_.async_wait(net::redirect_error(net::use_awaitable, error));
  }
  co_return std::exchange(signalled_, false);
}

HttpConnection::Awaitable<void> HttpConnection::pump() {
  std::array<char, kReadBytes> bytes;
  error_code error;
  const std::size_t input_limit = state_.limits.header_bytes + state_.limits.body_bytes;
  while (!eof_) {
    const std::size_t count = co_await socket_.async_read_some(net::buffer(bytes), net::redirect_error(net::use_awaitable, error));
    if (error) break;
    if (discard_input_) continue;
    input_.append(bytes.data(), count);
    const bool affordable = charge_memory();
    // Only requests pipelined behind one that is being answered pile up here.
    if (exchange_ && (!affordable || input_.size() > input_limit)) break;
    wake();
  }
  eof_ = true;
  if (exchange_ && !exchange_->complete()) {
    state_.disconnects.fetch_add(1);
    shut();
  } else if (error && error != net::error::eof) {
    close();
  }
  wake();
}

HttpConnection::Awaitable<void> HttpConnection::serve() {
  for (bool keep = true; keep;) {
    keep = co_await serve_one();
  }
  if (!eof_) co_await linger();
}

/// Waits for the client to take the last response: closing over unread input would reset the connection and destroy it.
HttpConnection::Awaitable<void> HttpConnection::linger() {
  error_code ignored;
  discard_input_ = true;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const auto deadline = Clock::now() + kLingerTimeout;
  for (bool in_time = true; in_time && !eof_;) {
    in_time = co_await wait(deadline);
  }
}

HttpConnection::Awaitable<HttpConnection::ReadResult> HttpConnection::feed(Parser& parser, bool whole, Clock::time_point deadline) {
  for (;;) {
    if (whole ? parser.is_done() : parser.is_header_done()) co_return ReadResult::kDone;
    std::size_t used = 0;
    if (!input_.empty()) {
      parse_error_ = {};
      const std::string_view pending = input_.view();
      used = parser.put(net::buffer(pending.data(), pending.size()), parse_error_);
      input_.consume(used);
      if (parse_error_ && parse_error_ != http::error::need_more) co_return ReadResult::kFailed;
      parse_error_ = {};
      body_bytes_ = parser.get().body().size();
      if (!charge_memory()) co_return ReadResult::kFailed;
    }
    if (used > 0) continue;
    if (eof_) co_return ReadResult::kClosed;
    const bool in_time = co_await wait(deadline);
    if (!in_time) co_return ReadResult::kTimeout;
  }
}

/// Accounts for what this connection holds of requests; false when all connections together hold too much.
bool HttpConnection::charge_memory() {
  const std::size_t bytes = body_bytes_ + input_.size();
  state_.request_bytes += bytes - charged_bytes_;
  charged_bytes_ = bytes;
  return bytes == 0 || state_.request_bytes <= state_.limits.total_request_bytes;
}

/// Waits for a whole request. False: the connection ends (what there was to say has been written).
HttpConnection::Awaitable<bool> HttpConnection::read_request(Parser& parser) {
  const auto idle_until = Clock::now() + state_.limits.idle_timeout;
  while (input_.empty()) {
    if (eof_) co_return false;
    const bool in_time = co_await wait(idle_until);
    if (!in_time) co_return false;
  }
  parser.header_limit(static_cast<std::uint32_t>(state_.limits.header_bytes));
  parser.body_limit(state_.limits.body_bytes);
  ReadResult result = co_await feed(parser, false, Clock::now() + state_.limits.header_timeout);
  const auto id = parser.get().find("X-Request-Id");
  client_request_id_ = id == parser.get().end() ? std::string() : std::string(id->value());
  if (result == ReadResult::kDone && !parser.is_done()) {
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const bool written = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      if (!written) co_return false;
    }
    parser.eager(true);
    result = co_await feed(parser, true, Clock::now() + state_.limits.body_timeout);
  }
  if (result == ReadResult::kDone) co_return true;
  if (result != ReadResult::kClosed) {
    const auto [status, message] = refusal(result);
    co_await refuse(status, message);
  }
  co_return false;
}

/// Status and words for a request that could not be read.
std::pair<int, std::string> HttpConnection::refusal(ReadResult result) const {
  if (result == ReadResult::kTimeout) return {408, "the request did not arrive in time"};
  if (!parse_error_) return {503, "too many request bodies in memory; try again later"};
  if (parse_error_ == http::error::body_limit) {
    return {413, fmt::format("the request body is larger than {} bytes", state_.limits.body_bytes)};
  }
  if (parse_error_ == http::error::header_limit) {
    return {431, fmt::format("the request headers are larger than {} bytes", state_.limits.header_bytes)};
  }
  return {400, "malformed HTTP request: " + parse_error_.message()};
}

HttpConnection::Awaitable<void> HttpConnection::refuse(int status, std::string_view message) {
  const HttpResponse response = state_.handler->error(status, std::string(message), client_request_id_);
  const std::string bytes = serialize_head(response, BodyFraming::kLength, false, std::time(nullptr)) + response.body;
  co_await write(bytes);
  co_await linger();
}

HttpConnection::Awaitable<bool> HttpConnection::serve_one() {
  Parser parser;
  const bool read = co_await read_request(parser);
  if (!read) co_return false;
  auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  if (!decode_target(std::string_view(message.target().data(), message.target().size()), &request.path)) {
    co_await refuse(400, "malformed request target");
    co_return false;
  }
  for (const auto& field : message) request.headers.emplace_back(field.name_string(), field.value());
  request.body = std::move(message.body());
  const bool keep = co_await answer(std::move(request), message.version() < 11, message.keep_alive());
  body_bytes_ = 0;
  charge_memory();
  co_return keep;
}

/// Hands the request over and writes what comes back. True when the connection goes on.
HttpConnection::Awaitable<bool> HttpConnection::answer(HttpRequest request, bool http10, bool keep_alive) {
  const bool head_only = request.method == "HEAD";
  std::weak_ptr<HttpConnection> weak = weak_from_this();
  exchange_ = std::make_shared<HttpExchange>(state_.limits.stream_buffer_bytes, [weak, &io = state_.io] {
    net::post(io, [weak] {
      if (auto self = weak.lock()) self->wake();
    });
  });
  state_.exchanges.fetch_add(1);
  state_.handler->handle(std::move(request), exchange_);
  if (eof_) exchange_->abort();  // the client left right behind its request; only what is complete already is delivered
  bool keep = false;
  for (;;) {
    HttpExchange::Output output = exchange_->take();
    if (output.overflowed) state_.overflows.fetch_add(1);
    if (output.overflowed || exchange_->aborted()) break;
    if (output.whole) keep_alive = keep_alive && !output.whole->close;
    keep_alive = keep_alive && !state_.draining.load();
    const bool idle = !output.whole && !output.stream_head && output.pieces.empty() && !output.complete;
    if (idle) {
      const bool woken = co_await wait(Clock::now() + state_.limits.heartbeat);
      if (!woken) exchange_->heartbeat();
      continue;
    }
    if (output.stream_head && http10) keep_alive = false;
    std::size_t piece_bytes = 0;
    for (const std::string& piece : output.pieces) piece_bytes += piece.size();
    const std::string bytes = serialize_output(output, head_only, http10, keep_alive);
    const bool written = co_await write(bytes);
    exchange_->written(piece_bytes);
    if (!written) break;
    if (output.complete) {
      keep = keep_alive;
      break;
    }
  }
  exchange_->abort();  // nothing if it is complete
  exchange_.reset();
  state_.exchanges.fetch_sub(1);
  if (!keep && eof_) close();
  co_return keep;
}

HttpConnection::Awaitable<bool> HttpConnection::write(std::string_view bytes) {
  std::weak_ptr<HttpConnection> weak = weak_from_this();
  writing_ = true;
  write_timer_.expires_after(state_.limits.write_timeout);
  write_timer_.async_wait([weak](error_code error) {
    auto self = weak.lock();
    if (!error && self && self->writing_ && self->write_timer_.expiry() <= Clock::now()) self->shut();
  });
  error_code error;
  co_await net::async_write(socket_, net::buffer(bytes.data(), bytes.size()), net::redirect_error(net::use_awaitable, error));
  writing_ = false;
  write_timer_.cancel();
  co_return !error;
}

}  // namespace lynx::server
