#include "server/prefill_node.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/log.h"
#include "kv/block_pool.h"
#include "server/engine_model_runner.h"
#include "server/grpc_server.h"
#include "server/http_server.h"
#include "server/kv_sender.h"
#include "server/loop_engine.h"
#include "server/metrics.h"
#include "server/node_model.h"
#include "server/node_pair.h"
#include "server/pair_metrics.h"
#include "server/probe_api.h"
#include "server/process_limits.h"
#include "server/prompt_server.h"
#include "server/shutdown_signal.h"

namespace lynx::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{20};

/// Pings of decode nodes come every second.
GrpcLimits control_limits() {
  GrpcLimits limits;
  limits.keepalive_time_ms = 1000;
  limits.keepalive_timeout_ms = 2000;
  limits.least_ping_interval_ms = 500;
  return limits;
}

/// Destroyed in reverse: the engine, which reports to the prompts' server, goes first.
struct LoadedNode final : ProbeSource {
  explicit LoadedNode(ServerMetrics& server_metrics) : metrics_page(server_metrics) {}

  ServerMetrics& metrics_page;
  const HttpServer* http = nullptr;
  NodeModel model;
  std::string advertised;
  std::unique_ptr<transport::Link> link;
  std::unique_ptr<PromptServer> prompts;
  std::unique_ptr<LoopEngine> engine;
  std::atomic<bool> draining{false};

  nlohmann::ordered_json health(bool* ready) const override {
    const EngineStats stats = engine->stats();
    const PromptServerStats pair = prompts->stats();
    const bool accepts = GrpcServer::accepts();
    *ready = !draining.load() && accepts;
    return {{"status", draining.load() ? "draining"
                       : accepts       ? "ok"
                                       : "the control port accepts no more connections"},
            {"model", model.names.front()},
            {"isa", isa_name(model.isa)},
            {"max_model_len", engine->max_model_len()},
            {"waiting_requests", stats.waiting},
            {"running_requests", stats.running},
            {"free_kv_blocks", stats.free_blocks},
            {"total_kv_blocks", stats.total_blocks},
            {"pair",
             {{"advertise", advertised},
              {"numerics", model.numerics},
              {"decode_nodes", pair.sessions},
              {"live_tickets", pair.tickets}}}};
  }

  std::string metrics() const override {
    const EngineStats stats = engine->stats();
    return metrics_page.serialize(&stats, http->stats()) + prefill_pair_metrics(prompts->stats(), model.numerics);
  }
};

std::optional<Failure> load(const Config& config, ServerMetrics& metrics, LoadedNode* node) {
  const auto started = Clock::now();
  if (auto failure = load_node_model(config, true, &node->model)) return failure;
  const NodeModel& model = node->model;
  metrics.set_model({.name = model.names.front(), .isa = std::string(isa_name(model.isa)), .kv_block_tokens = kv::kBlockTokens});
  auto runner = ModelRunner::create(model.model.get(), {.kv_memory_bytes = config.kv_memory_bytes});
  if (!runner.ok()) return engine_failure(runner.status());
  auto secret = pair_secret(config);
  if (!secret.ok()) return Failure{kExitUsage, secret.status()};
  auto link = open_link(config);
  if (!link.ok()) return Failure{kExitUsage, link.status()};
  node->link = std::move(link).value();
  auto prompts = PromptServer::create({.secret = std::move(secret).value(),
                                       .require_transport = config.require_transport,
                                       .hello = node_hello(model, model.model->config().context),
                                       .isa = model.isa,
                                       .profile = model.profile,
                                       .residual_delay_us = std::int64_t{1000} * config.test_residual_delay_ms},
                                      node->link.get(), &(*runner)->cache());
  if (!prompts.ok()) return Failure{kExitRuntime, prompts.status()};
  node->prompts = std::move(prompts).value();
  auto engine = LoopEngine::create(
      {.max_model_len = config.max_model_len,
       .max_running = config.max_running,
       .observer = &metrics,
       .transfer = node->prompts.get()},
      std::move(runner).value(), [](std::int32_t) { return std::string_view{}; }, model.pool.get());
  if (!engine.ok()) return engine_failure(engine.status());
  node->engine = std::move(engine).value();
  log_memory(model, node->engine->stats().total_blocks, false, KvSenderOptions{}.pool_bytes);
  log_model_loaded(model, node->engine->max_model_len(), node->engine->stats().total_blocks, started);
  return std::nullopt;
}

/// A port that is taken is told at once, not when the model is loaded.
Status check_control_port(const Config& config) {
  if (config.control_port == 0) return {};
  return HttpServer::listen(config.host, config.control_port, {}).status().with_context("--control-port");
}

/// Takes no new tickets from now on, and waits until those that are here are done and released; the exit code.
int drain(const Config& config, ShutdownSignal& signal, LoadedNode& node) {
  log_info("draining", {{"live_tickets", node.prompts->stats().tickets}, {"timeout_s", config.shutdown_timeout_s}});
  node.draining.store(true);
  node.prompts->begin_drain();
  const auto deadline = Clock::now() + std::chrono::duration<double>(config.shutdown_timeout_s);
  while (node.prompts->stats().tickets > 0) {
    if (signal.wait_for(kPoll) || Clock::now() >= deadline) {
      log_warning("ending with tickets left", {{"live_tickets", node.prompts->stats().tickets}});
      return kExitRuntime;
    }
  }
  log_info("drained");
  return kExitClean;
}

/// Opens the control port and serves; the exit code.
int serve(const Config& config, ShutdownSignal& signal, const HttpServer& http, ProbeApi& probes, LoadedNode& node) {
  auto control = GrpcServer::start(config.host, config.control_port, {node.prompts->service()}, control_limits());
  if (!control.ok()) return report({kExitRuntime, control.status().with_context("control plane")});
  const std::unique_ptr<GrpcServer> server = std::move(control).value();
  node.advertised = config.advertise.empty() ? fmt::format("{}:{}", config.host, server->port()) : config.advertise;
  node.http = &http;
  if (const Status status = write_port_file(config.port_file, {http.port(), server->port()}); !status.ok()) {
    return report({kExitRuntime, status});
  }
  node.prompts->start(node.engine.get());
  probes.set_source(&node);
  server->set_serving(true);
  log_info("listening", {{"control", node.advertised},
                         {"http", fmt::format("http://{}:{}", config.host, http.port())},
                         {"data_plane", node.link->library_version()},
                         {"numerics", node.model.numerics}});
  signal.wait();
  server->set_serving(false);
  const int exit_code = drain(config, signal, node);
  server->stop();
  node.prompts->stop();
  return exit_code;
}

}  // namespace

int run_prefill_node(const Config& config) {
  if (const auto failure = refuse_common_config(config)) return report(*failure);
  raise_open_files_limit();
  ShutdownSignal signal;
  ServerMetrics metrics;
  auto listening = HttpServer::listen(config.host, config.http_port, {});
  if (!listening.ok()) return report({kExitRuntime, listening.status().with_context("--http-port")});
  const std::unique_ptr<HttpServer> http = std::move(listening).value();
  if (const Status status = check_control_port(config); !status.ok()) return report({kExitRuntime, status});
  LoadedNode node(metrics);
  ProbeApi probes(metrics);
  http->start(probes);
  int exit_code = kExitClean;
  if (const auto failure = load(config, metrics, &node)) {
    exit_code = report(*failure);
  } else {
    exit_code = serve(config, signal, *http, probes, node);
  }
  http->stop();
  return exit_code;
}

}  // namespace lynx::server
