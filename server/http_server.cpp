#include "server/http_server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "common/log.h"
#include "server/http_connection.h"

namespace lynx::server {

namespace net = boost::asio;
using boost::beast::error_code;
using net::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kAcceptRetry{100};

class HttpServerImpl final : public HttpServer, private TaskRunner {
 public:
  explicit HttpServerImpl(const HttpLimits& limits) : acceptor_(state_.io), accept_timer_(state_.io) { state_.limits = limits; }
  ~HttpServerImpl() override { stop(); }

  Status bind(const std::string& host, int port);

  int port() const override { return port_; }
  TaskRunner& io() override { return *this; }
  void start(HttpHandler& handler) override;
  void begin_drain() override { state_.draining.store(true); }
  void stop() override;
  HttpStats stats() const override;

 private:
  void post(std::function<void()> task) override { net::post(state_.io, std::move(task)); }
  void run();
  net::awaitable<void> accept();
  void shut_all();

  HttpServerState state_;
  tcp::acceptor acceptor_;
  net::steady_timer accept_timer_;
  int port_ = 0;
  std::vector<std::weak_ptr<HttpConnection>> live_;  // I/O thread only
  std::size_t sweep_at_ = 64;
  std::mutex stop_mutex_;
  std::thread thread_;
};

Status HttpServerImpl::bind(const std::string& host, int port) {
  const auto failed = [&](const error_code& error) {
    return Status(Code::kUnavailable, fmt::format("cannot listen on {} port {}: {}", host, port, error.message()));
  };
  error_code error;
  tcp::resolver resolver(state_.io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error) return failed(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  port_ = acceptor_.local_endpoint().port();
  return {};
}

void HttpServerImpl::start(HttpHandler& handler) {
  state_.handler = &handler;
  net::co_spawn(state_.io, accept(), net::detached);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "lynx-http");
    run();
  });
}

/// A task that throws (for lack of memory, say) ends itself, not the server.
void HttpServerImpl::run() {
  for (;;) {
    try {
      state_.io.run();
      return;
    } catch (const std::exception& error) {
      log_error("unexpected failure on the I/O thread", {{"error", error.what()}});
    }
  }
}

net::awaitable<void> HttpServerImpl::accept() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, error));
    if (error == net::error::operation_aborted) co_return;
    if (error) {
      // Out of file descriptors, most likely: existing connections go on, new ones wait in the backlog.
      log_warning("cannot accept a connection", {{"error", error.message()}});
      accept_timer_.expires_after(kAcceptRetry);
      co_await accept_timer_.async_wait(net::redirect_error(net::use_awaitable, error));
      continue;
    }
    auto connection = std::make_shared<HttpConnection>(state_, std::move(socket));
    if (live_.size() >= sweep_at_) {
      std::erase_if(live_, [](const auto& weak) { return weak.expired(); });
      sweep_at_ = 64 + 2 * live_.size();
    }
    live_.push_back(connection);
    connection->start(state_.connections.load() > state_.limits.connections);
  }
}

void HttpServerImpl::shut_all() {
  error_code ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel();
  for (const auto& weak : live_) {
    if (auto connection = weak.lock()) connection->shut();
  }
  live_.clear();
}

void HttpServerImpl::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (!thread_.joinable()) return;
  // run() returns by itself once every coroutine has ended.
  net::post(state_.io, [this] { shut_all(); });
  thread_.join();
}

HttpStats HttpServerImpl::stats() const {
  return {.connections = state_.connections.load(),
          .exchanges = state_.exchanges.load(),
          .overflows_total = state_.overflows.load(),
          .disconnects_total = state_.disconnects.load()};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, int port, const HttpLimits& limits) {
  auto server = std::make_unique<HttpServerImpl>(limits);
  LYNX_RETURN_IF_ERROR(server->bind(host, port));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace lynx::server
