#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"
#include "server/metrics.h"
#include "server/openai_error.h"

namespace lynx::server {

/// One API request from its head to its last byte: puts the request id on every answer, and tells log and metrics how it ended.
/// Shared by whatever works on the request; when the last holder lets go without an answer, the client had gone (status 499).
class ApiCall {
 public:
  ApiCall(std::string request_id, const HttpRequest& request, std::shared_ptr<Responder> responder, ServerMetrics& metrics);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  const std::string& request_id() const { return request_id_; }
  /// `quiet`: a probe, logged at debug level.
  void set_route(std::string route, bool quiet);

  void respond(HttpResponse response);
  void respond_json(std::string body);
  /// A whole error response, or, inside a stream, an error event and the end.
  void respond_error(const ApiError& error);

  /// Server-sent events.
  void begin_stream();
  bool event(std::string event) { return responder_->write(std::move(event)); }
  bool bulk_event(std::string event) { return responder_->write_bulk(std::move(event)); }
  void end_stream();
  /// From now on a long silence begins the stream and sends comments, so that proxies and clients keep waiting.
  void keep_alive();

  void on_abort(std::function<void()> callback) { responder_->on_abort(std::move(callback)); }
  bool aborted() const { return responder_->aborted(); }

 private:
  HttpResponse stream_head() const;
  void finish(int status);

  const std::string request_id_;
  const std::string method_;
  const std::string path_;
  std::string route_ = "none";
  bool quiet_ = false;
  bool finished_ = false;
  const std::shared_ptr<Responder> responder_;
  ServerMetrics& metrics_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

/// The client's X-Request-Id if it is 1 to 128 visible ASCII characters, else a new one.
std::string request_id_for(std::string_view client_id);

/// "prefix" and 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace lynx::server
