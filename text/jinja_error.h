#pragma once

#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/status.h"

namespace lynx::text::jinja {

/// How the parser and the interpreter give up. Never leaves the room: ChatTemplate turns it into a Status.
class Error : public std::exception {
 public:
  explicit Error(Status status, bool verbatim = false) : status_(std::move(status)), verbatim_(verbatim) {}

  const char* what() const noexcept override { return status_.message().c_str(); }
  const Status& status() const { return status_; }
  /// Whether the message is the template's own (raise_exception) and must reach the caller unchanged.
  bool verbatim() const { return verbatim_; }

 private:
  Status status_;
  bool verbatim_;
};

/// What Python would raise as a TypeError, ValueError, UndefinedError, …
[[noreturn]] inline void fail(std::string message) {
  throw Error(invalid_argument(std::move(message)));
}

template <class First, class... Rest>
[[noreturn]] void fail(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  fail(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// Valid for Python's jinja2, not for us.
[[noreturn]] inline void fail_unsupported(const std::string& what) {
  throw Error(unimplemented(what + " is not supported"));
}

template <class First, class... Rest>
[[noreturn]] void fail_unsupported(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  fail_unsupported(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace lynx::text::jinja
