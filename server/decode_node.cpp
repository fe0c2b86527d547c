#include "server/decode_node.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/log.h"
#include "kv/block_pool.h"
#include "server/decode_pair.h"
#include "server/engine_model_runner.h"
#include "server/grpc_server.h"
#include "server/http_api.h"
#include "server/http_server.h"
#include "server/inference_service.h"
#include "server/kv_receiver.h"
#include "server/loop_engine.h"
#include "server/metrics.h"
#include "server/node_model.h"
#include "server/process_limits.h"
#include "server/shutdown_signal.h"
#include "server/worker_pool.h"

namespace lynx::server {
namespace {

using Clock = std::chrono::steady_clock;

/// Parsing and tokenizing; more would take cores from the model.
constexpr int kWorkers = 2;
constexpr std::chrono::milliseconds kPoll{20};
/// For the last words to clients whose requests did not finish in time.
constexpr std::chrono::milliseconds kFlush{500};

/// What answers requests; the engine, last in, is the first to go.
struct LoadedNode {
  NodeModel model;
  std::unique_ptr<DecodePair> pair;  ///< nullptr: aggregated.
  std::unique_ptr<LoopEngine> engine;
  ServingBackend backend;
};

std::optional<Failure> refuse_config(const Config& config) {
  const auto refuse = [](std::string message) { return Failure{kExitUsage, invalid_argument(std::move(message))}; };
  if (auto failure = refuse_common_config(config)) return failure;
  if (config.aggregated && !config.prefill.empty()) {
    return refuse("--aggregated and --prefill exclude each other: prompts are computed either here or there");
  }
  if (config.aggregated && !(config.net_devices + config.require_transport + config.pair_secret_file).empty()) {
    log_warning("--net-devices, --require-transport and --pair-secret-file mean nothing with --aggregated");
  }
  if (!config.aggregated && !config.plane_profile.empty()) {
    log_warning("--plane-profile means nothing without --aggregated: each prefill node's own profile counts");
  }
  if (!config.aggregated && config.prefill.empty()) {
    return refuse("--prefill HOST:PORT is needed (the control port of a prefill node), or --aggregated");
  }
  return std::nullopt;
}

std::optional<Failure> make_engine(const Config& config, ServerMetrics& metrics, LoadedNode* node) {
  auto runner = ModelRunner::create(node->model.model.get(), {.kv_memory_bytes = config.kv_memory_bytes,
                                                              .with_anchors = !config.aggregated,
                                                              .profile = node->model.profile,
                                                              .isa = node->model.isa});
  if (!runner.ok()) return engine_failure(runner.status());
  if (!config.aggregated) {
    auto pair = DecodePair::create(config, node->model, &(*runner)->cache(), (*runner)->anchors());
    if (!pair.ok()) return Failure{kExitUsage, pair.status()};
    node->pair = std::move(pair).value();
  }
  auto engine = LoopEngine::create({.max_model_len = config.max_model_len,
                                    .max_running = config.max_running,
                                    .observer = &metrics,
                                    .transfer = node->pair ? node->pair->transfer() : nullptr,
                                    .mode = *parse_transfer_mode(config.transfer),
                                    .gap = *parse_gap_mode(config.gap)},
                                   std::move(runner).value(), node->model.token_text(), node->model.pool.get());
  if (!engine.ok()) return engine_failure(engine.status());
  node->engine = std::move(engine).value();
  return std::nullopt;
}

std::optional<Failure> load(const Config& config, ServerMetrics& metrics, LoadedNode* node) {
  const auto started = Clock::now();
  if (auto failure = load_node_model(config, !config.aggregated, &node->model)) return failure;
  const NodeModel& model = node->model;
  if (!model.chat_template) log_warning("the model has no chat template; /v1/chat/completions is refused");
  ServingBackend& backend = node->backend;
  backend.text.tokenizer = &*model.tokenizer;
  backend.text.chat_template = model.chat_template ? &*model.chat_template : nullptr;
  backend.limits.model_names = model.names;
  backend.limits.vocabulary = model.model->config().vocabulary;
  backend.created = model.modified;
  backend.isa = std::string(isa_name(model.isa));
  metrics.set_model({.name = model.names.front(), .isa = backend.isa, .kv_block_tokens = kv::kBlockTokens});
  if (auto failure = make_engine(config, metrics, node)) return failure;
  backend.engine = node->engine.get();
  backend.limits.max_model_len = node->engine->max_model_len();
  backend.pair = node->pair ? node->pair->view() : nullptr;
  log_memory(model, node->engine->stats().total_blocks, node->pair != nullptr, node->pair ? KvReceiverOptions{}.pool_bytes : 0);
  log_model_loaded(model, backend.limits.max_model_len, node->engine->stats().total_blocks, started);
  return std::nullopt;
}

/// The gRPC front. Its health is SERVING while the node is ready and does not drain, whichever thread says so last.
class GrpcFront {
 public:
  GrpcFront(InferenceService& inference, GrpcServer& server) : inference_(inference), server_(server) {}

  void set_ready(bool ready) {
    const std::lock_guard lock(mutex_);
    server_.set_serving(ready && !draining_);
  }
  void begin_drain() {
    inference_.begin_drain();
    const std::lock_guard lock(mutex_);
    draining_ = true;
    server_.set_serving(false);
  }
  void abort_generations() { inference_.abort_generations(); }

 private:
  InferenceService& inference_;
  GrpcServer& server_;
  std::mutex mutex_;
  bool draining_ = false;
};

/// Serves until a signal, then lets running requests finish; the exit code.
int serve_until_signal(const Config& config, ShutdownSignal& signal, HttpApi& api, HttpServer& server, GrpcFront& grpc,
                       ServerMetrics& metrics, Engine& engine) {
  signal.wait();
  log_info("draining", {{"live_requests", metrics.live_calls()}, {"timeout_s", config.shutdown_timeout_s}});
  api.begin_drain();
  server.begin_drain();
  grpc.begin_drain();
  engine.begin_drain();
  const auto deadline = Clock::now() + std::chrono::duration<double>(config.shutdown_timeout_s);
  while (metrics.live_calls() > 0 || server.stats().exchanges > 0) {
    if (signal.wait_for(kPoll)) {
      log_warning("second signal: ending at once", {{"live_requests", metrics.live_calls()}});
      return kExitRuntime;
    }
    if (Clock::now() >= deadline) {
      log_warning("shutdown timeout: ending with requests running", {{"live_requests", metrics.live_calls()}});
      api.abort_generations();
      grpc.abort_generations();
      const auto busy = [&] { return metrics.live_calls() > 0 || server.stats().exchanges > 0; };
      for (const auto flushed = Clock::now() + kFlush; busy() && Clock::now() < flushed;) signal.wait_for(kPoll);
      return kExitRuntime;
    }
  }
  log_info("drained");
  return kExitClean;
}

}  // namespace

int run_decode_node(const Config& config) {
  if (const auto failure = refuse_config(config)) return report(*failure);
  std::vector<std::string> api_keys;
  if (!config.api_key_file.empty()) {
    auto keys = read_api_keys(config.api_key_file);
    if (!keys.ok()) return report({kExitUsage, keys.status()});
    api_keys = std::move(keys).value();
  }
  raise_open_files_limit();
  ShutdownSignal signal;
  // Destroyed in reverse: the engine's last updates still find the server's queue, and the server its handler and metrics.
  ServerMetrics metrics;
  auto listening = HttpServer::listen(config.host, config.http_port, {});
  if (!listening.ok()) return report({kExitRuntime, listening.status().with_context("--http-port")});
  const std::unique_ptr<HttpServer> server = std::move(listening).value();
  InferenceService inference(api_keys, metrics);
  auto grpc_listening = GrpcServer::start(config.host, config.grpc_port, {inference.service()});
  if (!grpc_listening.ok()) return report({kExitRuntime, grpc_listening.status().with_context("--grpc-port")});
  const std::unique_ptr<GrpcServer> grpc_server = std::move(grpc_listening).value();
  GrpcFront grpc(inference, *grpc_server);
  LoadedNode loaded;
  std::optional<HttpApi> api;
  // Their tasks use the API, so they end before it does.
  WorkerPool workers(kWorkers);
  api.emplace(HttpApi::Options{std::move(api_keys)}, *server, workers, metrics);
  server->start(*api);
  int exit_code = kExitClean;
  if (const auto failure = load(config, metrics, &loaded)) {
    exit_code = report(*failure);
  } else if (const Status status = write_port_file(config.port_file, {server->port(), grpc_server->port()}); !status.ok()) {
    exit_code = report({kExitRuntime, status});
  } else {
    api->set_backend(&loaded.backend);
    inference.set_backend(&loaded.backend, &workers);
    if (loaded.pair) {
      loaded.pair->start([&grpc](bool ready) { grpc.set_ready(ready); });
    } else {
      grpc.set_ready(true);
    }
    log_info(config.aggregated ? "ready" : "listening",
             {{"url", fmt::format("http://{}:{}", config.host, server->port())}, {"grpc_port", grpc_server->port()}});
    exit_code = serve_until_signal(config, signal, *api, *server, grpc, metrics, *loaded.engine);
  }
  if (loaded.pair) loaded.pair->stop();  // First: it tells the gRPC server about its nodes.
  grpc_server->stop();
  server->stop();
  return exit_code;
}

}  // namespace lynx::server
