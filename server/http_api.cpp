#include "server/http_api.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <utility>

#include "common/log.h"

namespace lynx::server {

struct HttpApi::Route {
  std::string_view method;
  std::string_view path;
  void (HttpApi::*handler)(const HttpRequest&, const CallPtr&);
  bool guarded = false;  ///< Needs an API key, where keys are configured, and a loaded model.
  bool worker = false;   ///< Runs on a worker, and is refused while draining.
};

const HttpApi::Route* HttpApi::find_route(const HttpRequest& request, std::string* allowed) {
  static constexpr std::array<Route, 10> kRoutes = {{
      {"GET", "/health", &HttpApi::health},
      {"GET", "/ping", &HttpApi::ping},
      {"GET", "/version", &HttpApi::version},
      {"GET", "/metrics", &HttpApi::metrics},
      {"GET", "/v1/models", &HttpApi::models, true},
      {"GET", "/tokenizer_info", &HttpApi::tokenizer_info, true},
      {"POST", "/v1/completions", &HttpApi::completions, true, true},
      {"POST", "/v1/chat/completions", &HttpApi::chat_completions, true, true},
      {"POST", "/tokenize", &HttpApi::tokenize, true, true},
      {"POST", "/detokenize", &HttpApi::detokenize, true, true},
  }};
  static constexpr Route kModelRoute = {"GET", "/v1/models/{id}", &HttpApi::model, true};
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const auto match = [&](const Route& route) {
    *allowed = route.method == "GET" ? "GET, HEAD" : "POST";
    return route.method == method ? &route : nullptr;
  };
  if (request.path.starts_with(kModelPrefix)) return match(kModelRoute);
  for (const Route& route : kRoutes) {
    if (route.path == request.path) return match(route);
  }
  return nullptr;
}

HttpApi::HttpApi(Options options, HttpServer& server, TaskRunner& workers, ServerMetrics& metrics)
    : options_(std::move(options)), server_(server), workers_(workers), metrics_(metrics) {}

HttpResponse HttpApi::error(int status, std::string message, std::string_view request_id) {
  HttpResponse response = error_response(plain_error(status, std::move(message)));
  const std::string id = request_id_for(request_id);
  response.headers.emplace_back("X-Request-Id", id);
  metrics_.http_request("none", status, 0);
  log_info("http request refused", {{"request_id", id}, {"status", status}});
  return response;
}

void HttpApi::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  auto call = std::make_shared<ApiCall>(request_id_for(request.header("X-Request-Id")), request, std::move(responder), metrics_);
  std::string allowed;
  const Route* route = find_route(request, &allowed);
  if (route == nullptr && allowed.empty()) {
    return call->respond_error(plain_error(404, fmt::format("no such path: {}", request.path.substr(0, 256))));
  }
  if (route == nullptr) {
    HttpResponse response =
        error_response(plain_error(405, fmt::format("{} allows {} only", request.path.substr(0, 256), allowed)));
    response.headers.emplace_back("Allow", allowed);
    return call->respond(std::move(response));
  }
  call->set_route(std::string(route->path), !route->guarded);
  if (route->guarded && !options_.api_keys.allow(request.header("Authorization"))) {
    return call->respond_error(plain_error(401, ApiKeys::kRefusal, "invalid_api_key"));
  }
  if (route->worker && draining_.load()) {
    return call->respond_error(plain_error(503, "the server is shutting down", "draining"));
  }
  if (route->guarded && backend_.load() == nullptr) {
    return call->respond_error(plain_error(503, "the model is still loading", "loading"));
  }
  auto shared = std::make_shared<const HttpRequest>(std::move(request));
  if (!route->worker) return dispatch(*route, shared, call);
  workers_.post([this, route, shared, call] {
    if (!call->aborted()) dispatch(*route, shared, call);
  });
}

/// The libraries below throw on broken invariants and lack of memory: one request fails, not the process.
void HttpApi::dispatch(const Route& route, const RequestPtr& request, const CallPtr& call) {
  try {
    (this->*route.handler)(*request, call);
  } catch (const std::exception& error) {
    log_error("unexpected failure", {{"request_id", call->request_id()}, {"route", route.path}, {"error", error.what()}});
    call->respond_error(plain_error(500, "internal error", "internal_error"));
  }
}

void HttpApi::health(const HttpRequest&, const CallPtr& call) {
  const ServingBackend* backend = backend_.load();
  const bool draining = draining_.load();
  const bool alone = backend != nullptr && backend->pair != nullptr && !backend->pair->ready();
  const char* const status = draining ? "draining" : backend == nullptr ? "loading" : alone ? "no prefill node" : "ok";
  Json body = {{"status", status}, {"version", LYNX_VERSION}};
  if (backend != nullptr) {
    const EngineStats stats = backend->engine->stats();
    body["model"] = backend->limits.model_names.front();
    body["isa"] = backend->isa;
    body["max_model_len"] = backend->limits.max_model_len;
    body["waiting_requests"] = stats.waiting;
    body["running_requests"] = stats.running;
    body["free_kv_blocks"] = stats.free_blocks;
    body["total_kv_blocks"] = stats.total_blocks;
    if (backend->pair != nullptr) body["pair"] = backend->pair->health();
  }
  HttpResponse response{.status = draining || backend == nullptr || alone ? 503 : 200, .body = dump_json(body)};
  call->respond(std::move(response));
}

void HttpApi::ping(const HttpRequest&, const CallPtr& call) {
  call->respond_json("{}");
}

void HttpApi::version(const HttpRequest&, const CallPtr& call) {
  call->respond_json(dump_json({{"version", LYNX_VERSION}}));
}

void HttpApi::metrics(const HttpRequest&, const CallPtr& call) {
  const ServingBackend* backend = backend_.load();
  const EngineStats stats = backend == nullptr ? EngineStats{} : backend->engine->stats();
  std::string text = metrics_.serialize(backend == nullptr ? nullptr : &stats, server_.stats());
  if (backend != nullptr && backend->pair != nullptr) text += backend->pair->metrics();
  call->respond({.content_type = kMetricsContentType, .body = std::move(text)});
}

}  // namespace lynx::server
