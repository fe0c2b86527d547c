#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

#include "common/status.h"
#include "server/metrics.h"
#include "server/openai_error.h"

namespace lynx::server {

/// The code by name (common/status.h has a subset of gRPC's), the message as it is.
grpc::Status to_grpc(const Status& status);

/// An error of the shared request code as a status; the message begins with the field.
Status status_from_error(const ApiError& error);

/// What all RPCs in progress may hold together. Any thread.
class GrpcBudget {
 public:
  GrpcBudget(int calls, std::size_t bytes) : calls_(calls), bytes_(bytes) {}

  /// UNAVAILABLE when it is too much.
  Status take(std::size_t bytes);
  void give_back(std::size_t bytes);

 private:
  std::mutex mutex_;
  int calls_;
  std::size_t bytes_;
};

/// One RPC from its arrival to its status: tells log and metrics how it ended. When it is let go without a status, the client had
/// gone (CANCELLED).
class GrpcCall {
 public:
  GrpcCall(std::string method, std::string request_id, ServerMetrics& metrics);
  ~GrpcCall();
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  const std::string& request_id() const { return request_id_; }
  /// Counts the call and its request against `budget` as long as it lives.
  Status charge(GrpcBudget& budget, std::size_t request_bytes);
  /// The first one counts. Returns it for gRPC.
  grpc::Status finish(const Status& status);

 private:
  const std::string method_;
  const std::string request_id_;
  ServerMetrics& metrics_;
  GrpcBudget* budget_ = nullptr;
  std::size_t charged_bytes_ = 0;
  bool finished_ = false;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace lynx::server
