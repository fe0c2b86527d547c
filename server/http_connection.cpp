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
#include <vector>

namespace lynx::server {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;

namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
constexpr std::chrono::milliseconds kLingerTimeout{1000};

/// The status that tells the client what was wrong with the bytes it sent.
int status_of(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

std::string chunk(const std::string& piece) {
  return fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
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
  auto self = shared_from_this();
  net::co_spawn(
      state_.io, [self]() -> Awaitable<void> { co_await self->pump(); }, net::detached);
  net::co_spawn(
      state_.io,
      [self, refuse_at_once]() -> Awaitable<void> {
        if (refuse_at_once) {
          co_await self->refuse(503, "too many connections");
          self->close();
        } else {
          co_await self->serve();
        }
      },
      net::detached);
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
  while (co_await serve_one()) {
  }
  if (!eof_) co_await linger();
  close();
}

/// Waits for the client to take the last response: closing over unread input would reset the connection and destroy it.
HttpConnection::Awaitable<void> HttpConnection::linger() {
  error_code ignored;
  discard_input_ = true;
  socket_.shutdown(Socket::shutdown_send, ignored);
  const auto deadline = Clock::now() + kLingerTimeout;
  while (!eof_ && co_await wait(deadline)) {
  }
}

HttpConnection::Awaitable<HttpConnection::ReadResult> HttpConnection::feed(Parser& parser, bool whole, Clock::time_point deadline) {
  for (;;) {
    if (whole ? parser.is_done() : parser.is_header_done()) co_return ReadResult::kDone;
    std::size_t used = 0;
    if (!input_.empty()) {
      parse_error_ = {};
      used = parser.put(net::buffer(std::as_const(input_)), parse_error_);
      input_.erase(0, used);
      if (parse_error_ && parse_error_ != http::error::need_more) co_return ReadResult::kFailed;
      parse_error_ = {};
      body_bytes_ = parser.get().body().size();
      if (!charge_memory()) co_return ReadResult::kFailed;
    }
    if (used > 0) continue;
    if (eof_) co_return ReadResult::kClosed;
    if (!co_await wait(deadline)) co_return ReadResult::kTimeout;
  }
}

/// Accounts for what this connection holds of requests; false when all connections together hold too much.
bool HttpConnection::charge_memory() {
  const std::size_t bytes = body_bytes_ + input_.size();
  state_.request_bytes += bytes - charged_bytes_;
  charged_bytes_ = bytes;
  return bytes == 0 || state_.request_bytes <= state_.limits.total_request_bytes;
}

/// False: the connection ends (what there was to say has been written).
HttpConnection::Awaitable<bool> HttpConnection::read_request(Parser& parser) {
  if (input_.empty()) {
    const auto idle_until = Clock::now() + state_.limits.idle_timeout;
    while (input_.empty()) {
      if (eof_ || !co_await wait(idle_until)) co_return false;
    }
  }
  parser.header_limit(static_cast<std::uint32_t>(state_.limits.header_bytes));
  parser.body_limit(state_.limits.body_bytes);
  client_request_id_.clear();
  ReadResult result = co_await feed(parser, false, Clock::now() + state_.limits.header_timeout);
  if (const auto id = parser.get().find("X-Request-Id"); id != parser.get().end()) client_request_id_ = std::string(id->value());
  if (result == ReadResult::kDone && !parser.is_done()) {
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    parser.eager(true);
    result = co_await feed(parser, true, Clock::now() + state_.limits.body_timeout);
  }
  switch (result) {
    case ReadResult::kDone: co_return true;
    case ReadResult::kClosed: break;
    case ReadResult::kTimeout: co_await refuse(408, "the request did not arrive in time"); break;
    case ReadResult::kFailed:
      if (!parse_error_) {
        co_await refuse(503, "too many request bodies in memory; try again later");
      } else if (parse_error_ == http::error::body_limit) {
        co_await refuse(413, fmt::format("the request body is larger than {} bytes", state_.limits.body_bytes));
      } else if (parse_error_ == http::error::header_limit) {
        co_await refuse(431, fmt::format("the request headers are larger than {} bytes", state_.limits.header_bytes));
      } else {
        co_await refuse(status_of(parse_error_), "malformed HTTP request: " + parse_error_.message());
      }
  }
  co_return false;
}

HttpConnection::Awaitable<void> HttpConnection::refuse(int status, std::string message) {
  HttpResponse response = state_.handler->error(status, std::move(message), client_request_id_);
  co_await write(serialize_head(response, BodyFraming::kLength, false) + response.body);
  co_await linger();
}

HttpConnection::Awaitable<bool> HttpConnection::serve_one() {
  Parser parser;
  if (!co_await read_request(parser)) co_return false;
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
      if (!co_await wait(Clock::now() + state_.limits.heartbeat)) exchange_->heartbeat();
      continue;
    }
    const bool complete = output.complete;
    if (output.stream_head && http10) keep_alive = false;
    if (!co_await write_output(std::move(output), head_only, http10, keep_alive)) break;
    if (complete) {
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

HttpConnection::Awaitable<bool> HttpConnection::write_output(HttpExchange::Output output, bool head_only, bool http10,
                                                             bool keep_alive) {
  std::string bytes;
  std::size_t piece_bytes = 0;
  if (output.whole) {
    bytes = serialize_head(*output.whole, head_only ? BodyFraming::kHeadOnly : BodyFraming::kLength, keep_alive);
    if (!head_only) bytes += output.whole->body;
  }
  if (output.stream_head) {
    bytes = serialize_head(*output.stream_head, http10 ? BodyFraming::kToEnd : BodyFraming::kChunked, keep_alive);
  }
  for (const std::string& piece : output.pieces) {
    piece_bytes += piece.size();
    bytes += http10 ? piece : chunk(piece);
  }
  if (output.complete && !output.whole && !http10) bytes += "0\r\n\r\n";
  const bool ok = co_await write(std::move(bytes));
  exchange_->written(piece_bytes);
  co_return ok;
}

HttpConnection::Awaitable<bool> HttpConnection::write(std::string bytes) {
  std::weak_ptr<HttpConnection> weak = weak_from_this();
  writing_ = true;
  write_timer_.expires_after(state_.limits.write_timeout);
  write_timer_.async_wait([weak](error_code error) {
    auto self = weak.lock();
    if (!error && self && self->writing_ && self->write_timer_.expiry() <= Clock::now()) self->shut();
  });
  error_code error;
  co_await net::async_write(socket_, net::buffer(bytes), net::redirect_error(net::use_awaitable, error));
  writing_ = false;
  write_timer_.cancel();
  co_return !error;
}

}  // namespace lynx::server
