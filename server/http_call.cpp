#include "server/http_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/log.h"
#include "server/openai_response.h"

namespace lynx::server {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
constexpr std::size_t kMaxLoggedPathBytes = 256;
constexpr int kClientClosed = 499;

std::string loggable(std::string_view text) {
  std::string out(text.substr(0, kMaxLoggedPathBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

}  // namespace

std::string random_id(std::string_view prefix) {
  thread_local std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

std::string request_id_for(std::string_view client_id) {
  const bool visible = std::all_of(client_id.begin(), client_id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!client_id.empty() && client_id.size() <= kMaxRequestIdBytes && visible) return std::string(client_id);
  return random_id("req-");
}

ApiCall::ApiCall(std::string request_id, const HttpRequest& request, std::shared_ptr<Responder> responder, ServerMetrics& metrics)
    : request_id_(std::move(request_id)),
      method_(loggable(request.method)),
      path_(loggable(request.path)),
      responder_(std::move(responder)),
      metrics_(metrics) {
  metrics_.call_begins();
}

ApiCall::~ApiCall() {
  if (!finished_) finish(kClientClosed);
  metrics_.call_ends();
}

void ApiCall::set_route(std::string route, bool quiet) {
  route_ = std::move(route);
  quiet_ = quiet;
}

void ApiCall::respond(HttpResponse response) {
  const int status = response.status;
  response.headers.emplace_back("X-Request-Id", request_id_);
  if (!aborted() && responder_->send(std::move(response))) finish(status);
}

void ApiCall::respond_json(std::string body) {
  respond(HttpResponse{.body = std::move(body)});
}

void ApiCall::respond_error(const ApiError& error) {
  HttpResponse response = error_response(error);
  const int status = response.status;
  response.headers.emplace_back("X-Request-Id", request_id_);
  if (status >= 500) log_warning("request failed", {{"request_id", request_id_}, {"error", error.message}});
  if (aborted()) return;
  if (!responder_->send(std::move(response))) {
    event(fmt::format("data: {}\n\n", error_body(error)));
    event(kSseDone);
    responder_->end_stream();
  }
  finish(status);
}

HttpResponse ApiCall::stream_head() const {
  return {.content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}, {"X-Request-Id", request_id_}}};
}

void ApiCall::begin_stream() {
  responder_->begin_stream(stream_head());
}

void ApiCall::keep_alive() {
  responder_->set_heartbeat(stream_head(), kSsePing);
}

void ApiCall::end_stream() {
  if (!aborted()) finish(200);
  responder_->end_stream();
}

void ApiCall::finish(int status) {
  if (std::exchange(finished_, true)) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
  metrics_.http_request(route_, status, seconds.count());
  log(quiet_ ? LogLevel::kDebug : LogLevel::kInfo, "http request",
      {{"request_id", request_id_}, {"method", method_}, {"path", path_}, {"status", status}, {"seconds", seconds.count()}});
}

}  // namespace lynx::server
