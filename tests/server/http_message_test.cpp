#include "server/http_message.h"

#include <fmt/format.h>

#include <string>
#include <thread>
#include <vector>

#include "server/http_exchange.h"
#include "server/http_input.h"
#include "tests/catch.h"

namespace lynx::server {

TEST_CASE("request targets become decoded paths") {
  std::string path;
  CHECK(decode_target("/v1/models?limit=1#x", &path));
  CHECK(path == "/v1/models");
  CHECK(decode_target("/v1/models/org%2Ftiny%20x", &path));
  CHECK(path == "/v1/models/org/tiny x");
  CHECK(decode_target("http://host:80/a/b?c", &path));
  CHECK(path == "/a/b");
  CHECK(decode_target("http://host", &path));
  CHECK(path == "/");
  for (const char* bad : {"/%", "/%4", "/%zz", "/%00"}) CHECK_FALSE(decode_target(bad, &path));
}

TEST_CASE("heads are framed for whole, headless and streamed bodies") {
  HttpResponse response{.headers = {{"X-A", "b"}}, .body = "12345"};
  const std::string whole = serialize_head(response, BodyFraming::kLength, true, 784111777);
  CHECK(whole.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(whole.find("\r\nContent-Length: 5\r\n") != std::string::npos);
  CHECK(whole.find("\r\nX-A: b\r\n") != std::string::npos);
  CHECK(whole.find("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n") != std::string::npos);
  CHECK(whole.ends_with("Connection: keep-alive\r\n\r\n"));
  CHECK(serialize_head(response, BodyFraming::kHeadOnly, false, 784111777)
            .ends_with("Content-Length: 5\r\nConnection: close\r\n\r\n"));
  CHECK(serialize_head(response, BodyFraming::kChunked, true, 784111777).find("Transfer-Encoding: chunked") != std::string::npos);
  CHECK(serialize_head(response, BodyFraming::kToEnd, false, 784111777).find("Content-Length") == std::string::npos);
}

TEST_CASE("input is taken from the front without moving the rest each time") {
  constexpr std::size_t kRequests = 100'000;
  std::string all;
  for (std::size_t i = 0; i < kRequests; ++i) all += fmt::format("{:08}", i);
  HttpInput input;
  input.append(all.data(), all.size());
  std::size_t moved_bytes = 0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    REQUIRE(input.size() == all.size() - 8 * i);
    const std::string_view front = input.view();
    REQUIRE(front.substr(0, 8) == std::string_view(all).substr(8 * i, 8));
    input.consume(8);
    if (!input.empty() && input.view().data() != front.data() + 8) moved_bytes += input.size();
  }
  CHECK(input.empty());
  CHECK(moved_bytes <= all.size());
  input.append("x", 1);
  CHECK(input.view() == "x");
}

TEST_CASE("an exchange delivers one whole response and nothing after it") {
  int wakes = 0;
  HttpExchange exchange(100, [&] { ++wakes; });
  bool aborted = false;
  exchange.on_abort([&] { aborted = true; });
  CHECK(exchange.send({.status = 404}));
  CHECK(exchange.send({.status = 200}));
  exchange.begin_stream({});
  CHECK_FALSE(exchange.write("late"));
  auto output = exchange.take();
  REQUIRE(output.whole);
  CHECK(output.whole->status == 404);
  CHECK(output.complete);
  CHECK_FALSE(output.stream_head);
  exchange.abort();
  CHECK_FALSE(aborted);
  CHECK(wakes == 1);
}

TEST_CASE("a stream keeps order, and a whole response cannot follow its head") {
  HttpExchange exchange(100, [] {});
  exchange.begin_stream({.content_type = "a"});
  exchange.begin_stream({.content_type = "b"});
  CHECK(exchange.write("1"));
  CHECK(exchange.write("2"));
  CHECK_FALSE(exchange.send({}));
  auto output = exchange.take();
  REQUIRE(output.stream_head);
  CHECK(output.stream_head->content_type == "a");
  CHECK(output.pieces == std::vector<std::string>{"1", "2"});
  CHECK_FALSE(output.complete);
  exchange.end_stream();
  CHECK(exchange.take().complete);
}

TEST_CASE("the stream's buffer is bounded, and what is written no longer counts") {
  HttpExchange exchange(10, [] {});
  exchange.begin_stream({});
  CHECK(exchange.write("a piece larger than the buffer passes alone"));
  (void)exchange.take();
  CHECK_FALSE(exchange.aborted());
  CHECK_FALSE(exchange.write("x"));
  CHECK(exchange.aborted());
  CHECK(exchange.take().overflowed);

  HttpExchange steady(10, [] {});
  steady.begin_stream({});
  for (int i = 0; i < 100; ++i) {
    REQUIRE(steady.write("1234567"));
    (void)steady.take();
    steady.written(7);
  }
  CHECK_FALSE(steady.aborted());
}

TEST_CASE("what is written in bulk brings its own room, and no more than that") {
  HttpExchange exchange(10, [] {});
  exchange.begin_stream({});
  for (int i = 0; i < 20; ++i) REQUIRE(exchange.write_bulk(std::string(100, 'b')));
  // Nothing was taken; pieces behind the bulk have as much room again, and the stream's own.
  for (int i = 0; i < 20; ++i) REQUIRE(exchange.write(std::string(100, 'x')));
  CHECK(exchange.write("0123456789"));
  CHECK_FALSE(exchange.aborted());
  CHECK(exchange.take().pieces.size() == 41);
  CHECK_FALSE(exchange.write("x"));
  CHECK(exchange.take().overflowed);
  CHECK_FALSE(exchange.write_bulk("x"));
}

TEST_CASE("an abort runs its callback exactly once, even when it comes first") {
  int calls = 0;
  HttpExchange exchange(10, [] {});
  exchange.on_abort([&] { ++calls; });
  exchange.abort();
  exchange.abort();
  CHECK(calls == 1);
  exchange.on_abort([&] { ++calls; });
  CHECK(calls == 2);
  CHECK_FALSE(exchange.write("x"));
}

TEST_CASE("a heartbeat begins the stream, and only where it was asked for") {
  HttpExchange without(10, [] {});
  without.heartbeat();
  CHECK(without.take().pieces.empty());
  HttpExchange with(10, [] {});
  with.set_heartbeat({.content_type = "text/event-stream"}, ": ping\n\n");
  with.heartbeat();
  const auto output = with.take();
  REQUIRE(output.stream_head);
  CHECK(output.pieces == std::vector<std::string>{": ping\n\n"});
  CHECK_FALSE(with.send({}));
}

TEST_CASE("writers and the connection may be on different threads") {
  HttpExchange exchange(std::size_t{1} << 20, [] {});
  exchange.begin_stream({});
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) exchange.write(std::to_string(i) + ",");
    exchange.end_stream();
  });
  std::string got;
  for (bool complete = false; !complete;) {
    auto output = exchange.take();
    for (const std::string& piece : output.pieces) {
      got += piece;
      exchange.written(piece.size());
    }
    complete = output.complete;
  }
  writer.join();
  std::string expected;
  for (int i = 0; i < 1000; ++i) expected += std::to_string(i) + ",";
  CHECK(got == expected);
}

}  // namespace lynx::server
