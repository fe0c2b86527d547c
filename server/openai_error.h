#pragma once

// Errors as OpenAI's clients expect them: {"error": {message, type, param, code}} under an HTTP status.

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/status.h"
#include "server/http_message.h"

namespace lynx::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param;  ///< The field at fault, as a path: "messages[1].content".
  std::optional<std::string> code;
};

/// A value or the error to answer with.
template <class T>
class ApiResult {
 public:
  ApiResult(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor): reads as `return value;`
  ApiResult(ApiError error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): reads as `return error;`

  bool ok() const { return std::holds_alternative<T>(state_); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T* operator->() { return &value(); }
  const ApiError& error() const { return std::get<ApiError>(state_); }

 private:
  std::variant<T, ApiError> state_;
};

/// 400 about one field.
ApiError field_error(std::string param, std::string message, std::optional<std::string> code = std::nullopt);

/// An error without a field, whose type follows from the status (401 authentication_error, 404 not_found_error…).
ApiError plain_error(int status, std::string message, std::optional<std::string> code = std::nullopt);

/// How a failure of the engine or of a library looks from outside.
ApiError error_from_status(const Status& status);

/// The JSON body (always valid UTF-8), and the response around it: Retry-After where it is worth trying again.
std::string error_body(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace lynx::server
