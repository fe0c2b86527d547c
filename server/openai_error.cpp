#include "server/openai_error.h"

#include "server/openai_json.h"

namespace lynx::server {
namespace {

std::string type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 503: return "service_unavailable_error";
    default: return "invalid_request_error";
  }
}

}  // namespace

ApiError field_error(std::string param, std::string message, std::optional<std::string> code) {
  return {.status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

ApiError plain_error(int status, std::string message, std::optional<std::string> code) {
  return {.status = status, .message = std::move(message), .type = type_of(status), .param = std::nullopt, .code = std::move(code)};
}

ApiError error_from_status(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented: return plain_error(400, status.message());
    case Code::kResourceExhausted: return plain_error(400, status.message(), "capacity_exceeded");
    case Code::kNotFound: return plain_error(404, status.message());
    case Code::kUnauthenticated: return plain_error(401, status.message());
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kCancelled: return plain_error(503, status.message());
    default: return plain_error(500, status.message(), "internal_error");
  }
}

std::string error_body(const ApiError& error) {
  const auto nullable = [](const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); };
  return dump_json(
      Json{{"error",
            {{"message", error.message}, {"type", error.type}, {"param", nullable(error.param)}, {"code", nullable(error.code)}}}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_body(error)};
  if (error.status == 429) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 503) response.headers.emplace_back("Retry-After", "5");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace lynx::server
