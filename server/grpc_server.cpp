#include "server/grpc_server.h"

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "common/log.h"

namespace lynx::server {
namespace {

/// Reflection is the only service that occupies a thread for each call.
constexpr int kMaxThreads = 16;

std::atomic<bool> accept_failed{false};

/// gRPC's own lines in our log, in its format. Nothing but such a line says that a listener is lost.
void log_from_grpc(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  log(level, "grpc", {{"text", args->message}});
  if (std::string_view(args->message).find("Failed accept") != std::string_view::npos && !accept_failed.exchange(true)) {
    log_error("gRPC accepts no more connections; this process must be restarted", {{"reason", args->message}});
  }
}

void set_up_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(log_from_grpc);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(std::unique_ptr<grpc::Server> server, int port) : server_(std::move(server)), port_(port) {}
  ~GrpcServerImpl() override { GrpcServerImpl::stop(); }

  int port() const override { return port_; }
  void set_serving(bool serving) override { server_->GetHealthCheckService()->SetServingStatus(serving); }
  void stop() override {
    std::call_once(stopped_, [this] { server_->Shutdown(std::chrono::system_clock::now()); });
  }

 private:
  const std::unique_ptr<grpc::Server> server_;
  const int port_;
  std::once_flag stopped_;
};

}  // namespace

bool GrpcServer::accepts() {
  return !accept_failed.load();
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const std::string& host, int port, const std::vector<GrpcService>& services,
                                                      const GrpcLimits& limits) {
  set_up_once();
  grpc::ServerBuilder builder;
  int bound = 0;
  const bool ipv6 = host.find(':') != std::string::npos;
  builder.AddListeningPort(fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port),
                           grpc::InsecureServerCredentials(), &bound);
  // With SO_REUSEPORT, which is gRPC's default, two servers would take turns on one port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, limits.keepalive_time_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limits.keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, limits.least_ping_interval_ms);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.message_bytes));
  builder.SetResourceQuota(grpc::ResourceQuota("lynx").Resize(limits.transport_bytes).SetMaxThreads(kMaxThreads));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  for (const GrpcService& service : services) builder.RegisterService(service.service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound == 0)
    return Status(Code::kUnavailable, fmt::format("cannot listen for gRPC on {} port {}", host, port));
  // A name must be known before set_serving() reaches it.
  for (const GrpcService& service : services) server->GetHealthCheckService()->SetServingStatus(service.name, false);
  server->GetHealthCheckService()->SetServingStatus(false);
  return std::unique_ptr<GrpcServer>(std::make_unique<GrpcServerImpl>(std::move(server), bound));
}

}  // namespace lynx::server
