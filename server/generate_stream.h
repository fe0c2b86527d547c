#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "proto/lynx/v1/inference.pb.h"
#include "server/generation_plan.h"
#include "server/grpc_call.h"
#include "server/http_message.h"
#include "server/serving_backend.h"

namespace lynx::server {

/// Answers one Generate call. gRPC's reactions and the engine's updates are all posted to one runner, so nothing here is locked;
/// the prompt is tokenized by a worker. Lives until gRPC is done with the call and the engine with the request. A client that
/// leaves, is past its deadline or reads too slowly cancels the engine's request.
class GenerateStream final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  /// All of it outlives the stream.
  struct Context {
    grpc::CallbackServerContext& rpc;
    const v1::GenerateRequest& request;
    const ServingBackend* backend;  ///< Needed by start() only.
    TaskRunner* workers;            ///< The same.
    TaskRunner& updates;            ///< Runs tasks in order, one at a time.
  };

  GenerateStream(const Context& context, std::unique_ptr<GrpcCall> call);

  /// One of the two, once, before the reactor is given to gRPC: to answer, or to refuse.
  void start();
  void refuse(const Status& status);

  /// Ends the call with `status` unless it has ended. Any thread.
  void fail(const Status& status);

 private:
  class Sink;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  template <class Task>
  void post(Task task);
  void plan();
  void submit(GenerationPlan plan);
  void on_update(GenerationUpdate update);
  void begin(v1::GenerateResponse* first);
  void write(v1::GenerateResponse message, bool bulk);
  void written(bool ok);
  void end(Status status);
  void cancel();
  void pump();

  const Context context_;
  const std::unique_ptr<GrpcCall> call_;
  std::shared_ptr<GenerateStream> self_;  ///< gRPC's hold on this, until OnDone.
  std::atomic<bool> cancelled_{false};

  // On the updates runner only.
  GenerationPlan plan_;
  std::string engine_id_;  ///< Empty: the engine has nothing of ours.
  bool planning_ = false;  ///< A worker reads the request, which gRPC frees after Finish.
  bool begun_ = false;
  bool ended_ = false;
  bool writing_ = false;
  bool finished_ = false;
  std::optional<Status> final_;
  std::deque<v1::GenerateResponse> queue_;
  v1::GenerateResponse current_;  ///< What gRPC is writing.
  std::size_t buffered_bytes_ = 0;
  std::size_t buffer_limit_;
  std::int32_t echo_code_points_ = 0;
  grpc::Alarm last_words_;
};

}  // namespace lynx::server
