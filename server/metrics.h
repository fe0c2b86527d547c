#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/engine.h"
#include "server/http_server.h"

namespace lynx::server {

/// What does not change while the process serves.
struct ModelInfo {
  std::string name;
  std::string isa;
  int kv_block_tokens = 0;
};

/// Everything /metrics shows: native lynx_<room>_… series, and under vLLM's names those that gateways and dashboards read.
/// Any thread may call anything; the observer's calls come from the engine's.
class ServerMetrics final : public EngineObserver {
 public:
  ServerMetrics();
  ~ServerMetrics() override;
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  /// Once, before the engine runs.
  void set_model(const ModelInfo& info);

  void on_first_token(double ttft_s) override;
  void on_next_token(double since_last_s) override;
  void on_pass(int rows, double seconds) override;
  void on_request_end(const RequestReport& report) override;

  void http_request(std::string_view route, int status, double seconds);
  /// `code`: as code_name() spells it.
  void grpc_request(std::string_view method, std::string_view code, double seconds);
  /// Requests, over HTTP or gRPC, that handlers are working on; back to zero when the server is idle.
  void call_begins();
  void call_ends();
  int live_calls() const;

  /// The text exposition format; `engine` is null while the model is loading.
  std::string serialize(const EngineStats* engine, const HttpStats& http);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace lynx::server
