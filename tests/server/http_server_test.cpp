// The server against raw sockets: framing, limits, disconnects. Behind it, a handler that does what the path says.

#include "server/http_server.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_client.h"
#include "tests/server/http_front_fixture.h"

namespace lynx::server {
namespace {

using testing::ClientResponse;
using testing::eventually;
using testing::fetch;
using testing::Front;
using testing::HttpClient;

class PathHandler final : public HttpHandler {
 public:
  void handle(HttpRequest request, std::shared_ptr<Responder> responder) override {
    handled.fetch_add(1);
    if (request.path == "/echo") {
      responder->send({.content_type = "text/plain", .body = request.method + ":" + request.body});
    } else if (request.path == "/stream") {
      responder->begin_stream({.content_type = "text/event-stream"});
      for (const char* piece : {"data: 1\n\n", "data: 2\n\n"}) responder->write(piece);
      responder->end_stream();
    } else if (request.path == "/close") {
      responder->send({.body = "bye", .close = true});
    } else {
      // /hold, /flood and /quiet are answered by the test, or never.
      responder->on_abort([this] { aborted.fetch_add(1); });
      if (request.path == "/quiet") responder->set_heartbeat({.content_type = "text/event-stream"}, ": ping\n\n");
      if (request.path == "/flood") responder->begin_stream({});
      const std::lock_guard lock(mutex);
      held.push_back(std::move(responder));
    }
  }
  HttpResponse error(int status, std::string message, std::string_view request_id) override {
    return {.status = status, .headers = {{"X-Request-Id", std::string(request_id)}}, .body = std::move(message)};
  }
  std::shared_ptr<Responder> wait_for_held() {
    REQUIRE(eventually([this] {
      const std::lock_guard lock(mutex);
      return !held.empty();
    }));
    const std::lock_guard lock(mutex);
    auto responder = held.back();
    held.pop_back();
    return responder;
  }

  std::atomic<int> handled{0};
  std::atomic<int> aborted{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
};

struct TestServer {
  explicit TestServer(const HttpLimits& limits = {}) {
    auto listening = HttpServer::listen("127.0.0.1", 0, limits);
    REQUIRE(listening.ok());
    server = std::move(listening).value();
    server->start(handler);
  }
  ~TestServer() {
    server->stop();
    handler.held.clear();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  int port() const { return server->port(); }

  PathHandler handler;
  std::unique_ptr<HttpServer> server;
};

}  // namespace

TEST_CASE("requests on one connection are answered in turn") {
  TestServer test;
  HttpClient client(test.port());
  for (int i = 0; i < 3; ++i) {
    client.send_request("POST", "/echo", "body" + std::to_string(i));
    const auto response = client.receive();
    REQUIRE(response);
    CHECK(response->body == "POST:body" + std::to_string(i));
    CHECK(response->header("connection") == "keep-alive");
  }
}

TEST_CASE("pipelined requests keep their order, even behind a slow one") {
  TestServer test;
  HttpClient client(test.port());
  client.send_request("GET", "/hold");
  for (int i = 0; i < 20; ++i) client.send_request("POST", "/echo", std::string(static_cast<std::size_t>(i + 1), 'x'));
  test.handler.wait_for_held()->send({.body = "held"});
  CHECK(client.receive()->body == "held");
  for (int i = 0; i < 20; ++i) CHECK(client.receive()->body == "POST:" + std::string(static_cast<std::size_t>(i + 1), 'x'));
}

TEST_CASE("a request may arrive byte by byte") {
  TestServer test;
  HttpClient client(test.port());
  const std::string request = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc";
  for (const char byte : request) REQUIRE(client.send(std::string_view(&byte, 1)));
  CHECK(client.receive()->body == "POST:abc");
}

TEST_CASE("chunked bodies, with extensions and trailers") {
  TestServer test;
  HttpClient client(test.port());
  for (int round = 0; round < 2; ++round) {
    client.send(
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: "
        "y\r\n\r\n");
    CHECK(client.receive()->body == "POST:abc0123456789");
  }
}

TEST_CASE("streams are chunked for HTTP/1.1 and end with the connection for HTTP/1.0") {
  TestServer test;
  HttpClient client(test.port());
  for (int round = 0; round < 2; ++round) {
    client.send_request("GET", "/stream");
    const auto response = client.receive();
    REQUIRE(response);
    CHECK(response->header("transfer-encoding") == "chunked");
    CHECK(response->body == "data: 1\n\ndata: 2\n\n");
  }
  HttpClient old(test.port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto response = old.receive();
  REQUIRE(response);
  CHECK(response->header("transfer-encoding").empty());
  CHECK(response->body == "data: 1\n\ndata: 2\n\n");
}

TEST_CASE("HEAD gets the head alone; close is honoured from either side") {
  TestServer test;
  HttpClient client(test.port());
  client.send_request("HEAD", "/echo");
  const auto head = client.receive(true);
  REQUIRE(head);
  CHECK(head->header("content-length") == "5");
  client.send_request("GET", "/echo");
  CHECK(client.receive()->body == "GET:");
  client.send_request("GET", "/close");
  CHECK(client.receive()->header("connection") == "close");
  CHECK(client.closed_by_server());
  HttpClient other(test.port());
  other.send_request("GET", "/echo", {}, "Connection: close\r\n");
  CHECK(other.receive()->header("connection") == "close");
  CHECK(other.closed_by_server());
}

TEST_CASE("Expect: 100-continue gets its go-ahead, or the refusal at once") {
  TestServer test({.body_bytes = 100});
  HttpClient client(test.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(client.receive()->status == 100);
  client.send("ok");
  CHECK(client.receive()->body == "POST:ok");
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n");
  CHECK(client.receive()->status == 413);
}

TEST_CASE("what is too large or malformed is refused, and its connection ends") {
  TestServer test({.header_bytes = 1000, .body_bytes = 100});
  const std::string long_header = "X-A: " + std::string(2000, 'a') + "\r\n";
  const std::pair<std::string, int> cases[] = {
      {"GET /echo HTTP/1.1\r\n" + long_header + "\r\n", 431},
      {"GET /" + std::string(2000, 'a') + " HTTP/1.1\r\n\r\n", 431},
      {"POST /echo HTTP/1.1\r\nContent-Length: 101\r\n\r\n" + std::string(101, 'x'), 413},
      {"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", 413},
      {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x') + "\r\n0\r\n\r\n", 413},
      {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"GET /echo HTTP/9.9\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 11), 400},
      {"\r\nhello\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    INFO(bytes.substr(0, 60));
    HttpClient client(test.port());
    client.send(bytes);
    const auto response = client.receive();
    REQUIRE(response);
    CHECK(response->status == status);
    CHECK(response->header("connection") == "close");
    CHECK(client.closed_by_server());
  }
  CHECK(fetch(test.port(), "GET", "/echo").status == 200);
}

TEST_CASE("the client's request id reaches the server's own errors") {
  TestServer test({.body_bytes = 10});
  HttpClient client(test.port());
  client.send("POST /echo HTTP/1.1\r\nX-Request-Id: mine\r\nContent-Length: 11\r\n\r\n");
  CHECK(client.receive()->header("x-request-id") == "mine");
}

TEST_CASE("slow heads and bodies get 408, idle connections are closed without a word") {
  TestServer test({.header_timeout = std::chrono::milliseconds(50),
                   .body_timeout = std::chrono::milliseconds(50),
                   .idle_timeout = std::chrono::milliseconds(50)});
  HttpClient head(test.port());
  head.send("GET /echo HT");
  CHECK(head.receive()->status == 408);
  HttpClient body(test.port());
  body.send("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
  CHECK(body.receive()->status == 408);
  HttpClient idle(test.port());
  CHECK(idle.closed_by_server());
}

TEST_CASE("bodies of all requests together are bounded") {
  TestServer test({.body_bytes = 1000, .total_request_bytes = 1500});
  const std::string body(900, 'x');
  HttpClient first(test.port());
  first.send_request("POST", "/hold", body);
  auto held = test.handler.wait_for_held();
  HttpClient second(test.port());
  second.send_request("POST", "/echo", body);
  CHECK(second.receive()->status == 503);
  held->send({});
  CHECK(first.receive()->status == 200);
  CHECK(eventually([&] { return fetch(test.port(), "POST", "/echo", body).status == 200; }));
}

TEST_CASE("connections are capped") {
  TestServer test({.connections = 2});
  HttpClient first(test.port());
  HttpClient second(test.port());
  first.send_request("GET", "/echo");
  second.send_request("GET", "/echo");
  REQUIRE(first.receive());
  REQUIRE(second.receive());
  HttpClient third(test.port());
  CHECK(third.receive()->status == 503);
  first.close();
  CHECK(eventually([&] { return fetch(test.port(), "GET", "/echo").status == 200; }));
}

TEST_CASE("a client that leaves is noticed while its answer is pending or streaming") {
  TestServer test;
  int expected = 0;
  for (const char* path : {"/hold", "/flood"}) {
    for (const int how : {0, 1, 2}) {
      INFO(path << " " << how);
      HttpClient client(test.port());
      client.send_request("GET", path);
      auto held = test.handler.wait_for_held();
      if (how == 0) client.close();
      if (how == 1) client.reset();
      if (how == 2) client.half_close();
      ++expected;
      REQUIRE(eventually([&] { return test.handler.aborted.load() == expected; }));
      CHECK(held->aborted());
      CHECK_FALSE(held->write("x"));
    }
  }
  CHECK(eventually([&] { return test.server->stats().connections == 0; }));
  CHECK(test.server->stats().exchanges == 0);
  CHECK(test.server->stats().disconnects_total == 6);
}

TEST_CASE("a client that sends its request and shuts its side still gets an immediate answer") {
  TestServer test;
  HttpClient client(test.port());
  client.send_request("GET", "/echo");
  client.half_close();
  CHECK(client.receive()->body == "GET:");
}

TEST_CASE("a reader that does not read overflows its own stream only") {
  TestServer test({.stream_buffer_bytes = 100'000});
  HttpClient slow(test.port());
  slow.shrink_receive_buffer();
  slow.send_request("GET", "/flood");
  auto stream = test.handler.wait_for_held();
  const std::string piece(10'000, 'x');
  // The kernel's buffers take some first; what the server holds beyond them is bounded.
  bool open = true;
  for (int i = 0; i < 100'000 && open; ++i) open = stream->write(piece);
  CHECK_FALSE(open);
  CHECK(eventually([&] { return test.handler.aborted.load() == 1; }));
  CHECK(eventually([&] { return test.server->stats().overflows_total == 1; }));
  CHECK(fetch(test.port(), "GET", "/echo").status == 200);
}

TEST_CASE("a write that makes no progress ends the connection") {
  TestServer test({.write_timeout = std::chrono::milliseconds(100)});
  HttpClient slow(test.port());
  slow.shrink_receive_buffer();
  slow.send_request("GET", "/hold");
  test.handler.wait_for_held()->send({.body = std::string(std::size_t{64} << 20, 'x')});
  CHECK(eventually([&] { return test.server->stats().connections == 0; }));
}

TEST_CASE("silence begins the stream with a comment where that was asked for") {
  TestServer test({.heartbeat = std::chrono::milliseconds(20)});
  HttpClient client(test.port());
  client.send_request("GET", "/quiet");
  const std::string seen = client.receive_until(": ping\n\n");
  CHECK(seen.starts_with("HTTP/1.1 200 OK"));
  auto stream = test.handler.wait_for_held();
  CHECK_FALSE(stream->send({.status = 500}));
  stream->write("data: x\n\n");
  stream->end_stream();
  const auto response = client.receive();
  REQUIRE(response);
  CHECK(response->body.ends_with("data: x\n\n"));
}

TEST_CASE("draining ends connections behind their answers; stopping aborts what is open") {
  TestServer test;
  HttpClient client(test.port());
  client.send_request("GET", "/hold");
  test.handler.wait_for_held()->send({});
  CHECK(client.receive()->header("connection") == "keep-alive");
  test.server->begin_drain();
  CHECK(fetch(test.port(), "GET", "/echo").header("connection") == "close");
  HttpClient open(test.port());
  open.send_request("GET", "/hold");
  auto held = test.handler.wait_for_held();
  test.server->stop();
  CHECK(test.handler.aborted.load() == 1);
  CHECK(open.closed_by_server());
}

TEST_CASE("a port that is taken is named") {
  TestServer test;
  const auto second = HttpServer::listen("127.0.0.1", test.port(), {});
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().message().find(std::to_string(test.port())) != std::string::npos);
  CHECK_FALSE(HttpServer::listen("no.such.host.invalid", 0, {}).ok());
}

TEST_CASE("many connections at once, each with its own answer") {
  TestServer test;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<HttpClient>(test.port()));
  for (std::size_t i = 0; i < clients.size(); ++i) clients[i]->send_request("POST", "/echo", "n" + std::to_string(i));
  for (std::size_t i = 0; i < clients.size(); ++i) CHECK(clients[i]->receive()->body == "POST:n" + std::to_string(i));
}

}  // namespace lynx::server
