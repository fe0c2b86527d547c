#include "server/grpc_call.h"

#include <fmt/format.h>

#include <utility>

#include "common/log.h"

namespace lynx::server {
namespace {

grpc::StatusCode grpc_code(Code code) {
  switch (code) {
    case Code::kOk: return grpc::StatusCode::OK;
    case Code::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case Code::kUnauthenticated: return grpc::StatusCode::UNAUTHENTICATED;
    case Code::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kFailedPrecondition: return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kUnimplemented: return grpc::StatusCode::UNIMPLEMENTED;
    case Code::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case Code::kDeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kCancelled: return grpc::StatusCode::CANCELLED;
    case Code::kDataLoss: return grpc::StatusCode::DATA_LOSS;
    case Code::kInternal: return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

Code code_from_http(int status) {
  switch (status) {
    case 400: return Code::kInvalidArgument;
    case 401: return Code::kUnauthenticated;
    case 404: return Code::kNotFound;
    case 429:
    case 503: return Code::kUnavailable;
    default: return Code::kInternal;
  }
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  return status.ok() ? grpc::Status::OK : grpc::Status(grpc_code(status.code()), status.message());
}

Status status_from_error(const ApiError& error) {
  return {code_from_http(error.status), error.param ? fmt::format("{}: {}", *error.param, error.message) : error.message};
}

Status GrpcBudget::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (calls_ == 0 || bytes > bytes_) return {Code::kUnavailable, "too many requests at once; try again"};
  --calls_;
  bytes_ -= bytes;
  return {};
}

void GrpcBudget::give_back(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  bytes_ += bytes;
}

GrpcCall::GrpcCall(std::string method, std::string request_id, ServerMetrics& metrics)
    : method_(std::move(method)), request_id_(std::move(request_id)), metrics_(metrics) {
  metrics_.call_begins();
}

GrpcCall::~GrpcCall() {
  if (!finished_) finish({Code::kCancelled, "the client has gone"});
  if (budget_ != nullptr) budget_->give_back(charged_bytes_);
  metrics_.call_ends();
}

Status GrpcCall::charge(GrpcBudget& budget, std::size_t request_bytes) {
  LYNX_RETURN_IF_ERROR(budget.take(request_bytes));
  budget_ = &budget;
  charged_bytes_ = request_bytes;
  return {};
}

grpc::Status GrpcCall::finish(const Status& status) {
  if (!std::exchange(finished_, true)) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
    metrics_.grpc_request(method_, code_name(status.code()), seconds.count());
    if (status.code() == Code::kInternal) log_warning("request failed", {{"request_id", request_id_}, {"error", status.message()}});
    log_info("grpc request",
             {{"request_id", request_id_}, {"method", method_}, {"code", code_name(status.code())}, {"seconds", seconds.count()}});
  }
  return to_grpc(status);
}

}  // namespace lynx::server
