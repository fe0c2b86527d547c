#include "server/decode_node.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "model/model_file.h"
#include "server/grpc_server.h"
#include "server/http_api.h"
#include "server/http_server.h"
#include "server/inference_service.h"
#include "server/loop_engine.h"
#include "server/metrics.h"
#include "server/shutdown_signal.h"
#include "server/worker_pool.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lynx::server {
namespace {

using Clock = std::chrono::steady_clock;

/// Parsing and tokenizing; more would take cores from the model.
constexpr int kWorkers = 2;
constexpr std::chrono::milliseconds kPoll{20};
/// For the last words to clients whose requests did not finish in time.
constexpr std::chrono::milliseconds kFlush{500};

/// A failure together with the exit code it means.
struct Failure {
  int exit_code;
  Status status;
};

int report(const Failure& failure) {
  log_error("cannot serve", {{"reason", failure.status.message()}});
  return failure.exit_code;
}

/// What a loaded model consists of; the engine, last in, is the first to go.
struct LoadedModel {
  std::optional<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<LoopEngine> engine;
  ServingBackend backend;
};

std::optional<Failure> refuse_config(const Config& config) {
  const auto refuse = [](Code code, std::string message) { return Failure{kExitUsage, {code, std::move(message)}}; };
  if (config.model.empty()) return refuse(Code::kInvalidArgument, "--model is needed: a .gguf file or a Hugging Face directory");
  if (!config.aggregated) {
    return refuse(Code::kUnimplemented,
                  "without --aggregated this node needs a prefill peer, and KV transfer is not part of this version; "
                  "run it with --aggregated");
  }
  if (config.device == DeviceKind::kCuda) {
    return refuse(Code::kUnimplemented, "--device cuda: there are no CUDA kernels in this version; run it with --device cpu");
  }
  return std::nullopt;
}

std::int64_t modification_time(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::int64_t>(info.st_mtime) : 0;
}

/// The names given by --served-model-name; else the file's: "models/Tiny-Q4.gguf" → "Tiny-Q4".
std::vector<std::string> model_names(const Config& config) {
  if (!config.served_model_names.empty()) return config.served_model_names;
  std::string path = config.model;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return {name};
}

Status load_text(model::ModelFile& file, LoadedModel* loaded) {
  auto tokenizer = text::Tokenizer::create(file.tokenizer());
  if (!tokenizer.ok()) return tokenizer.status().with_context("tokenizer");
  loaded->tokenizer.emplace(std::move(tokenizer).value());
  loaded->backend.text.tokenizer = &*loaded->tokenizer;
  const auto source = file.chat_template();
  if (!source) {
    log_warning("the model has no chat template; /v1/chat/completions is refused");
    return {};
  }
  auto parsed = text::ChatTemplate::parse(*source);
  if (!parsed.ok()) return parsed.status().with_context("chat template");
  loaded->chat_template.emplace(std::move(parsed).value());
  loaded->backend.text.chat_template = &*loaded->chat_template;
  return {};
}

std::optional<Failure> load(const Config& config, ServerMetrics& metrics, LoadedModel* loaded) {
  const auto started = Clock::now();
  auto isa = choose_isa(config.isa);
  if (!isa.ok()) return Failure{kExitUsage, isa.status().with_context("--isa")};
  auto file = model::ModelFile::open(config.model);
  if (!file.ok()) return Failure{kExitModel, file.status()};
  if (Status status = load_text(**file, loaded); !status.ok()) return Failure{kExitModel, status.with_context(config.model)};
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  loaded->pool = std::make_unique<ThreadPool>(config.threads > 0 ? config.threads : cores);
  auto loaded_model = model::Model::load(**file, *isa, loaded->pool.get());
  if (!loaded_model.ok()) return Failure{kExitModel, loaded_model.status().with_context(config.model)};
  loaded->model = std::move(loaded_model).value();
  (*file)->drop_pages();

  ServingBackend& backend = loaded->backend;
  backend.limits.model_names = model_names(config);
  backend.limits.vocabulary = loaded->model->config().vocabulary;
  backend.created = modification_time(config.model);
  backend.isa = std::string(isa_name(*isa));
  metrics.set_model({.name = backend.limits.model_names.front(), .isa = backend.isa, .kv_block_tokens = kv::kBlockTokens});
  auto engine = LoopEngine::create({.kv_memory_bytes = config.kv_memory_bytes,
                                    .max_model_len = config.max_model_len,
                                    .max_running = config.max_running,
                                    .observer = &metrics},
                                   loaded->model.get(), &*loaded->tokenizer, loaded->pool.get());
  if (!engine.ok()) {
    // The model is loaded: what cannot be had is the KV memory that the settings ask for.
    if (engine.status().code() == Code::kResourceExhausted) return Failure{kExitUsage, engine.status().with_context("--kv-memory")};
    const bool usage = engine.status().code() == Code::kInvalidArgument;
    return Failure{usage ? kExitUsage : kExitModel, engine.status()};
  }
  loaded->engine = std::move(engine).value();
  backend.engine = loaded->engine.get();
  backend.limits.max_model_len = loaded->engine->max_model_len();
  const std::chrono::duration<double> seconds = Clock::now() - started;
  log_info("model loaded", {{"model", backend.limits.model_names.front()},
                            {"isa", backend.isa},
                            {"threads", loaded->pool->size()},
                            {"weights", format_bytes(static_cast<std::int64_t>(loaded->model->weight_bytes()))},
                            {"max_model_len", backend.limits.max_model_len},
                            {"kv_blocks", loaded->engine->stats().total_blocks},
                            {"seconds", seconds.count()}});
  return std::nullopt;
}

/// The ports, HTTP's first, one a line.
Status write_port_file(const std::string& path, int http_port, int grpc_port) {
  if (path.empty()) return {};
  // Whoever waits for the file must not see it half-written.
  const std::string partial = path + ".partial";
  std::ofstream file(partial);
  file << http_port << '\n' << grpc_port << '\n';
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) return invalid_argument("--port-file: cannot write " + path);
  return {};
}

/// The gRPC front: what serves and what listens.
struct GrpcFront {
  InferenceService& inference;
  GrpcServer& server;
};

/// Serves until a signal, then lets running requests finish; the exit code.
int serve_until_signal(const Config& config, ShutdownSignal& signal, HttpApi& api, HttpServer& server, const GrpcFront& grpc,
                       ServerMetrics& metrics, Engine& engine) {
  signal.wait();
  log_info("draining", {{"live_requests", metrics.live_calls()}, {"timeout_s", config.shutdown_timeout_s}});
  api.begin_drain();
  server.begin_drain();
  grpc.inference.begin_drain();
  grpc.server.set_serving(false);
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
      grpc.inference.abort_generations();
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
  ShutdownSignal signal;
  // Destroyed in reverse: the engine's last updates still find the server's queue, and the server its handler and metrics.
  ServerMetrics metrics;
  auto listening = HttpServer::listen(config.host, config.http_port, {});
  if (!listening.ok()) return report({kExitRuntime, listening.status()});
  const std::unique_ptr<HttpServer> server = std::move(listening).value();
  InferenceService inference(api_keys, metrics);
  auto grpc_listening = GrpcServer::start(config.host, config.grpc_port, {inference.service()});
  if (!grpc_listening.ok()) return report({kExitRuntime, grpc_listening.status()});
  const std::unique_ptr<GrpcServer> grpc_server = std::move(grpc_listening).value();
  LoadedModel loaded;
  std::optional<HttpApi> api;
  // Their tasks use the API, so they end before it does.
  WorkerPool workers(kWorkers);
  api.emplace(HttpApi::Options{std::move(api_keys)}, *server, workers, metrics);
  server->start(*api);
  int exit_code = kExitClean;
  if (const auto failure = load(config, metrics, &loaded)) {
    exit_code = report(*failure);
  } else if (const Status status = write_port_file(config.port_file, server->port(), grpc_server->port()); !status.ok()) {
    exit_code = report({kExitRuntime, status});
  } else {
    api->set_backend(&loaded.backend);
    inference.set_backend(&loaded.backend, &workers);
    grpc_server->set_serving(true);
    log_info("ready", {{"url", fmt::format("http://{}:{}", config.host, server->port())}, {"grpc_port", grpc_server->port()}});
    exit_code = serve_until_signal(config, signal, *api, *server, {inference, *grpc_server}, metrics, *loaded.engine);
  }
  grpc_server->stop();
  server->stop();
  return exit_code;
}

}  // namespace lynx::server
