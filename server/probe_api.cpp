#include "server/probe_api.h"

#include <fmt/format.h>

#include <utility>

#include <nlohmann/json.hpp>

#include "server/openai_error.h"
#include "server/openai_json.h"

namespace lynx::server {

void ProbeApi::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  ApiCall call(request_id_for(request.header("X-Request-Id")), request, std::move(responder), metrics_);
  const bool known =
      request.path == "/ping" || request.path == "/health" || request.path == "/metrics" || request.path == "/version";
  if (!known) {
    return call.respond_error(plain_error(
        404, fmt::format("no such path: {} (this is a prefill node: clients ask a decode node)", request.path.substr(0, 256))));
  }
  call.set_route(request.path, true);
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse response = error_response(plain_error(405, request.path + " allows GET, HEAD only"));
    response.headers.emplace_back("Allow", "GET, HEAD");
    return call.respond(std::move(response));
  }
  answer(request.path, call);
}

void ProbeApi::answer(const std::string& path, ApiCall& call) const {
  const ProbeSource* const source = source_.load();
  if (path == "/ping") return call.respond_json("{}");
  if (path == "/version") return call.respond_json(dump_json({{"version", LYNX_VERSION}}));
  if (path == "/metrics") {
    return call.respond({.content_type = kMetricsContentType, .body = source == nullptr ? std::string() : source->metrics()});
  }
  bool ready = false;
  Json body = source == nullptr ? Json{{"status", "loading"}} : source->health(&ready);
  body["version"] = LYNX_VERSION;
  call.respond({.status = ready ? 200 : 503, .body = dump_json(body)});
}

HttpResponse ProbeApi::error(int status, std::string message, std::string_view request_id) {
  HttpResponse response = error_response(plain_error(status, std::move(message)));
  response.headers.emplace_back("X-Request-Id", request_id_for(request_id));
  metrics_.http_request("none", status, 0);
  return response;
}

}  // namespace lynx::server
