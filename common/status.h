#pragma once

// Errors as values. No exception crosses a room's public interface; libraries that throw are wrapped where they are called.

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace lynx {

/// What kind of failure happened; a subset of the gRPC canonical codes, so that the HTTP and gRPC fronts map them by table.
enum class Code {
  kOk,
  kInvalidArgument,     ///< The caller's fault: a bad request, flag, file or field. The message names it.
  kNotFound,            ///< A named thing (model, file, request) does not exist.
  kUnauthenticated,     ///< Missing or wrong credentials.
  kResourceExhausted,   ///< It could never fit, or a queue is full. The message names the capacity.
  kFailedPrecondition,  ///< Right call, wrong state.
  kUnimplemented,       ///< Known, and not supported; refused in clear words.
  kUnavailable,         ///< Try again later (draining, no peer).
  kDeadlineExceeded,
  kCancelled,
  kDataLoss,  ///< A checksum or a size does not match.
  kInternal,  ///< A broken invariant of ours.
};

/// "INVALID_ARGUMENT" and so on, as gRPC spells them.
std::string_view code_name(Code code);

/// Success, or a code with a message for a person. A plain value; safe to copy between threads.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same failure with "prefix: " before its message: says where it happened.
  Status with_context(std::string_view prefix) const;

  /// "INVALID_ARGUMENT: message", or "OK".
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}
inline Status not_found(std::string message) {
  return {Code::kNotFound, std::move(message)};
}
inline Status unimplemented(std::string message) {
  return {Code::kUnimplemented, std::move(message)};
}
inline Status resource_exhausted(std::string message) {
  return {Code::kResourceExhausted, std::move(message)};
}
inline Status internal_error(std::string message) {
  return {Code::kInternal, std::move(message)};
}

/// A value or the Status that says why there is none. GCC 12 has no std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor): reads as `return value;`
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor): reads as `return status;`

  bool ok() const { return std::holds_alternative<T>(state_); }

  /// Only when ok().
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// OK when there is a value.
  Status status() const { return ok() ? Status{} : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace lynx

/// Leaves the function with the Status of `expr` if it is not OK.
#define LYNX_RETURN_IF_ERROR(expr)                                  \
  do {                                                              \
    if (::lynx::Status lynx_status_ = (expr); !lynx_status_.ok()) { \
      return lynx_status_;                                          \
    }                                                               \
  } while (false)

#define LYNX_CONCAT_INNER_(a, b) a##b
#define LYNX_CONCAT_(a, b) LYNX_CONCAT_INNER_(a, b)

/// `LYNX_TRY(auto x, make_x());`: declares x from a Result, or leaves the function with its Status.
#define LYNX_TRY(declaration, expr) LYNX_TRY_IMPL_(LYNX_CONCAT_(lynx_result_, __LINE__), declaration, expr)
#define LYNX_TRY_IMPL_(result, declaration, expr) \
  auto result = (expr);                           \
  if (!result.ok()) {                             \
    return result.status();                       \
  }                                               \
  declaration = std::move(result).value()
