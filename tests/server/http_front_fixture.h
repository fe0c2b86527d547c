#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http_api.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/worker_pool.h"
#include "tests/catch.h"
#include "tests/server/eventually.h"
#include "tests/server/http_byte_tokenizer.h"
#include "tests/server/http_client.h"
#include "tests/server/http_fake_engine.h"

namespace lynx::server::testing {

/// The whole front on a free loopback port, with a fake engine behind it.
class Front {
 public:
  struct Options {
    HttpLimits limits{};
    std::vector<std::string> api_keys{};
    bool loaded = true;
    int max_model_len = 256;
  };

  Front() : Front(Options{}) {}
  explicit Front(const Options& options) : engine(options.max_model_len) {
    auto listening = HttpServer::listen("127.0.0.1", 0, options.limits);
    REQUIRE(listening.ok());
    server = std::move(listening).value();
    workers = std::make_unique<WorkerPool>(2);
    api = std::make_unique<HttpApi>(HttpApi::Options{options.api_keys}, *server, *workers, metrics);
    metrics.set_model({.name = "tiny", .isa = "portable", .kv_block_tokens = 64});
    backend.engine = &engine;
    backend.text = {&tokenizer, &chat_template};
    backend.limits = {
        .model_names = {"tiny", "org/tiny"}, .vocabulary = tokenizer.vocabulary(), .max_model_len = options.max_model_len};
    backend.created = 1'700'000'000;
    backend.isa = "portable";
    if (options.loaded) api->set_backend(&backend);
    server->start(*api);
  }
  ~Front() {
    server->stop();
    workers.reset();
  }
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  int port() const { return server->port(); }
  ClientResponse post(std::string_view path, const std::string& body, std::string_view headers = {}) const {
    return fetch(port(), "POST", path, body, headers);
  }
  ClientResponse get(std::string_view path, std::string_view headers = {}) const { return fetch(port(), "GET", path, {}, headers); }

  /// Nothing is held for any request any more.
  bool idle() {
    return eventually([this] { return engine.live() == 0 && metrics.live_calls() == 0 && server->stats().exchanges == 0; });
  }

  text::Tokenizer tokenizer = byte_tokenizer();
  text::ChatTemplate chat_template = simple_chat_template();
  ServerMetrics metrics;
  std::unique_ptr<HttpServer> server;
  FakeEngine engine;
  ServingBackend backend;
  std::unique_ptr<WorkerPool> workers;
  std::unique_ptr<HttpApi> api;
};

/// Parsed payloads of a stream, checking that it is one and ends with [DONE].
inline std::vector<Json> events_of(const ClientResponse& response) {
  CHECK(response.header("content-type").starts_with("text/event-stream"));
  CHECK(response.header("cache-control") == "no-cache");
  auto data = sse_data(response.body);
  REQUIRE_FALSE(data.empty());
  CHECK(data.back() == "[DONE]");
  data.pop_back();
  std::vector<Json> events;
  for (const std::string& text : data) events.push_back(Json::parse(text));
  return events;
}

}  // namespace lynx::server::testing
