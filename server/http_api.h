#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_keys.h"
#include "server/generation_session.h"
#include "server/http_call.h"
#include "server/http_message.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/serving_backend.h"

namespace lynx::server {

/// Routes and answers every request of the HTTP front. Cheap routes are answered on the I/O thread; bodies are parsed and tokenized
/// by workers.
class HttpApi final : public HttpHandler {
 public:
  struct Options {
    ApiKeys api_keys;
  };

  /// `server` provides the I/O thread and its statistics; the three outlive the API's last request.
  HttpApi(Options options, HttpServer& server, TaskRunner& workers, ServerMetrics& metrics);

  /// Once, from any thread: until then the server is "loading" and answers 503.
  void set_backend(const ServingBackend* backend) { backend_.store(backend); }
  /// From now on readiness is 503 and new inference is refused; what runs goes on. Any thread.
  void begin_drain() { draining_.store(true); }
  /// Ends the generations that are still running with an error that says so. Any thread; takes effect soon.
  void abort_generations();

  void handle(HttpRequest request, std::shared_ptr<Responder> responder) override;
  HttpResponse error(int status, std::string message, std::string_view request_id) override;

 private:
  using CallPtr = std::shared_ptr<ApiCall>;
  using RequestPtr = std::shared_ptr<const HttpRequest>;
  struct Route;
  static constexpr std::size_t kFirstSweep = 64;
  static constexpr std::string_view kModelPrefix = "/v1/models/";

  static const Route* find_route(const HttpRequest& request, std::string* allowed);
  void start_generation(GenerationPlan plan, const CallPtr& call, const ServingBackend& backend);
  void dispatch(const Route& route, const RequestPtr& request, const CallPtr& call);

  void health(const HttpRequest&, const CallPtr& call);
  void ping(const HttpRequest&, const CallPtr& call);
  void version(const HttpRequest&, const CallPtr& call);
  void metrics(const HttpRequest&, const CallPtr& call);
  void models(const HttpRequest&, const CallPtr& call);
  void model(const HttpRequest& request, const CallPtr& call);
  void completions(const HttpRequest& request, const CallPtr& call);
  void chat_completions(const HttpRequest& request, const CallPtr& call);
  void tokenize(const HttpRequest& request, const CallPtr& call);
  void detokenize(const HttpRequest& request, const CallPtr& call);
  void tokenizer_info(const HttpRequest&, const CallPtr& call);

  const Options options_;
  HttpServer& server_;
  TaskRunner& workers_;
  ServerMetrics& metrics_;
  std::atomic<const ServingBackend*> backend_{nullptr};
  std::atomic<bool> draining_{false};
  std::vector<std::weak_ptr<GenerationSession>> sessions_;  ///< I/O thread only; may hold some that have ended.
  std::size_t sweep_at_ = kFirstSweep;
};

}  // namespace lynx::server
