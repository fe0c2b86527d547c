#include "common/status.h"

namespace lynx {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kUnauthenticated: return "UNAUTHENTICATED";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition: return "FAILED_PRECONDITION";
    case Code::kUnimplemented: return "UNIMPLEMENTED";
    case Code::kUnavailable: return "UNAVAILABLE";
    case Code::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::kCancelled: return "CANCELLED";
    case Code::kDataLoss: return "DATA_LOSS";
    case Code::kInternal: return "INTERNAL";
  }
  return "UNKNOWN";
}

Status Status::with_context(std::string_view prefix) const {
  if (ok()) return *this;
  return {code_, std::string(prefix) + ": " + message_};
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(code_name(code_)) + ": " + message_;
}

}  // namespace lynx
