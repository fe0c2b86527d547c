#pragma once

// lynx.v1.Inference: the client API over gRPC, beside the HTTP front and over the same engine.

#include <memory>

#include "server/api_keys.h"
#include "server/grpc_server.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/serving_backend.h"

namespace lynx::server {

/// Any thread may call anything. Outlives the gRPC server it is given to and the engine, whose last updates it takes.
class InferenceService {
 public:
  InferenceService(ApiKeys api_keys, ServerMetrics& metrics);
  ~InferenceService();
  InferenceService(const InferenceService&) = delete;
  InferenceService& operator=(const InferenceService&) = delete;

  /// For GrpcServer::start().
  GrpcService service();

  /// Once: until then calls are UNAVAILABLE, for the model is loading. `workers` tokenize; both live until the gRPC server has
  /// stopped.
  void set_backend(const ServingBackend* backend, TaskRunner* workers);
  /// From now on new calls that need the engine or the workers are UNAVAILABLE; what runs goes on.
  void begin_drain();
  /// Ends the generations that are still running with an error that says so; takes effect soon.
  void abort_generations();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::server
