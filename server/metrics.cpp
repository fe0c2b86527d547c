#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace lynx::server {
namespace {

using Labels = std::map<std::string, std::string>;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kLatencyBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160};
const Buckets kTokenBuckets = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5};
const Buckets kRowBuckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};

/// The same observation under the native and vLLM's name; the latter may be missing.
struct Histogram {
  prometheus::Histogram* native = nullptr;
  prometheus::Histogram* vllm = nullptr;

  void observe(double value) const {
    if (value < 0 || native == nullptr) return;
    native->Observe(value);
    if (vllm != nullptr) vllm->Observe(value);
  }
};

/// A value read from elsewhere when the page is made.
struct Gauge {
  prometheus::Gauge* native = nullptr;
  prometheus::Gauge* vllm = nullptr;

  void set(double value) const {
    native->Set(value);
    if (vllm != nullptr) vllm->Set(value);
  }
};

struct Counter {
  prometheus::Counter* native = nullptr;
  prometheus::Counter* vllm = nullptr;

  void advance_to(double total) const {
    for (prometheus::Counter* counter : {native, vllm}) {
      if (counter != nullptr && total > counter->Value()) counter->Increment(total - counter->Value());
    }
  }
  void increment() const {
    native->Increment();
    if (vllm != nullptr) vllm->Increment();
  }
};

}  // namespace

struct ServerMetrics::Impl {
  prometheus::Registry registry;
  Labels model_labels;
  std::atomic<int> live_calls{0};
  std::atomic<bool> has_model{false};

  Histogram ttft, inter_token, total, queue, prefill, decode, pass_seconds, pass_rows, http_seconds, grpc_seconds;
  Gauge waiting, running, kv_usage, kv_free, kv_total, connections, exchanges, calls;
  Counter prompt_tokens, generated_tokens, preemptions, drafted, accepted, overflows, disconnects, stopped, cut, cancelled, failed;
  prometheus::Family<prometheus::Counter>* http_requests = nullptr;
  prometheus::Family<prometheus::Counter>* grpc_requests = nullptr;
  prometheus::Family<prometheus::Gauge>* cache_info = nullptr;
  prometheus::Gauge* acceptance = nullptr;
  int kv_block_tokens = 0;

  std::mutex scrape_mutex;  // advance_to reads and adds
  int shown_blocks = -1;

  Histogram histogram(const char* name, const char* vllm_name, const char* help, const Buckets& buckets) {
    const auto add = [&](const char* family, const Labels& labels) {
      return &prometheus::BuildHistogram().Name(family).Help(help).Register(registry).Add(labels, buckets);
    };
    return {add(name, {}), vllm_name == nullptr ? nullptr : add(vllm_name, model_labels)};
  }
  Gauge gauge(const char* name, const char* vllm_name, const char* help) {
    const auto add = [&](const char* family, const Labels& labels) {
      return &prometheus::BuildGauge().Name(family).Help(help).Register(registry).Add(labels);
    };
    return {add(name, {}), vllm_name == nullptr ? nullptr : add(vllm_name, model_labels)};
  }
  Counter counter(const char* name, const char* vllm_name, const char* help, const Labels& native_labels = {},
                  const Labels& vllm_labels = {}) {
    const auto add = [&](const char* family, const Labels& labels) {
      return &prometheus::BuildCounter().Name(family).Help(help).Register(registry).Add(labels);
    };
    Labels all = model_labels;
    all.insert(vllm_labels.begin(), vllm_labels.end());
    return {add(name, native_labels), vllm_name == nullptr ? nullptr : add(vllm_name, all)};
  }

  /// By model: a model that drafts badly is seen here.
  void show_acceptance(double value) {
    if (acceptance == nullptr) {
      acceptance = &prometheus::BuildGauge()
                        .Name("lynx_draft_acceptance")
                        .Help("Estimated chance that a draft behind right ones is right, 0 to 1")
                        .Register(registry)
                        .Add(model_labels);
    }
    acceptance->Set(value);
  }

  void create_fronts();
  void create_latencies();
  void create_engine();
};

void ServerMetrics::Impl::create_fronts() {
  http_requests = &prometheus::BuildCounter()
                       .Name("lynx_server_http_requests_total")
                       .Help("HTTP requests by route and status; 499: the client left before its answer")
                       .Register(registry);
  http_seconds =
      histogram("lynx_server_http_request_seconds", nullptr, "From a request's arrival to its last byte", kLatencyBuckets);
  grpc_requests = &prometheus::BuildCounter()
                       .Name("lynx_server_grpc_requests_total")
                       .Help("gRPC requests by method and status code")
                       .Register(registry);
  grpc_seconds =
      histogram("lynx_server_grpc_request_seconds", nullptr, "From a gRPC request's arrival to its status", kLatencyBuckets);
  connections = gauge("lynx_server_http_connections", nullptr, "Open HTTP connections");
  exchanges = gauge("lynx_server_http_exchanges", nullptr, "HTTP requests read and not yet answered");
  calls = gauge("lynx_server_live_calls", nullptr, "Requests that handlers hold");
  overflows = counter("lynx_server_http_slow_readers_total", nullptr, "Streams aborted because their client reads too slowly");
  disconnects = counter("lynx_server_http_disconnects_total", nullptr, "Clients that left before their answer was complete");
}

void ServerMetrics::Impl::create_latencies() {
  ttft = histogram("lynx_server_time_to_first_token_seconds", "vllm:time_to_first_token_seconds", "Submitted to first token",
                   kLatencyBuckets);
  inter_token =
      histogram("lynx_server_inter_token_seconds", "vllm:inter_token_latency_seconds", "Between a choice's tokens", kTokenBuckets);
  total = histogram("lynx_server_request_seconds", "vllm:e2e_request_latency_seconds", "Submitted to end", kLatencyBuckets);
  queue =
      histogram("lynx_server_request_queue_seconds", "vllm:request_queue_time_seconds", "Submitted to admitted", kLatencyBuckets);
  prefill = histogram("lynx_server_request_prefill_seconds", "vllm:request_prefill_time_seconds", "Admitted to first token",
                      kLatencyBuckets);
  decode =
      histogram("lynx_server_request_decode_seconds", "vllm:request_decode_time_seconds", "First token to end", kLatencyBuckets);
  pass_seconds = histogram("lynx_model_pass_seconds", nullptr, "One forward pass", kTokenBuckets);
  pass_rows = histogram("lynx_model_pass_rows", nullptr, "Tokens of one forward pass", kRowBuckets);
}

void ServerMetrics::Impl::create_engine() {
  waiting = gauge("lynx_scheduler_waiting_requests", "vllm:num_requests_waiting", "Requests queued or preempted");
  running = gauge("lynx_scheduler_running_requests", "vllm:num_requests_running", "Requests admitted");
  kv_free = gauge("lynx_kv_free_blocks", nullptr, "KV blocks nobody holds");
  kv_total = gauge("lynx_kv_total_blocks", nullptr, "KV blocks there are");
  kv_usage = gauge("lynx_kv_usage_ratio", "vllm:kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1");
  prompt_tokens = counter("lynx_model_prompt_tokens_total", "vllm:prompt_tokens_total", "Prompt tokens computed");
  generated_tokens = counter("lynx_model_generated_tokens_total", "vllm:generation_tokens_total", "Tokens generated");
  drafted = counter("lynx_draft_tokens_total", nullptr, "Drafted tokens that were held against a complete cache");
  accepted = counter("lynx_draft_accepted_tokens_total", nullptr, "Of these, such as were right");
  preemptions = counter("lynx_scheduler_preemptions_total", "vllm:num_preemptions_total", "Requests whose blocks were taken back");
  const char* name = "lynx_server_finished_requests_total";
  const char* help = "Requests by how they ended";
  stopped = counter(name, "vllm:request_success_total", help, {{"outcome", "stop"}}, {{"finished_reason", "stop"}});
  cut = counter(name, "vllm:request_success_total", help, {{"outcome", "length"}}, {{"finished_reason", "length"}});
  cancelled = counter(name, "vllm:request_success_total", help, {{"outcome", "cancelled"}}, {{"finished_reason", "abort"}});
  failed = counter(name, nullptr, help, {{"outcome", "error"}});
  cache_info = &prometheus::BuildGauge()
                    .Name("vllm:cache_config_info")
                    .Help("Shape of the KV cache; num_gpu_blocks counts blocks wherever they are")
                    .Register(registry);
}

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {
  impl_->create_fronts();
}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::set_model(const ModelInfo& info) {
  impl_->model_labels = {{"model_name", info.name}, {"engine", "0"}};
  impl_->kv_block_tokens = info.kv_block_tokens;
  impl_->create_latencies();
  impl_->create_engine();
  prometheus::BuildGauge()
      .Name("lynx_build_info")
      .Help("What runs here; always 1")
      .Register(impl_->registry)
      .Add({{"version", LYNX_VERSION}, {"isa", info.isa}, {"model", info.name}})
      .Set(1);
  impl_->has_model.store(true);
}

void ServerMetrics::on_first_token(double ttft_s) {
  impl_->ttft.observe(ttft_s);
}
void ServerMetrics::on_next_token(double since_last_s) {
  impl_->inter_token.observe(since_last_s);
}

void ServerMetrics::on_pass(int rows, double seconds) {
  impl_->pass_rows.observe(rows);
  impl_->pass_seconds.observe(seconds);
}

void ServerMetrics::on_request_end(const RequestReport& report) {
  if (report.error.code() == Code::kCancelled) return impl_->cancelled.increment();
  if (!report.error.ok()) return impl_->failed.increment();
  (report.finish == FinishReason::kLength ? impl_->cut : impl_->stopped).increment();
  impl_->queue.observe(report.queue_s);
  impl_->prefill.observe(report.prefill_s);
  impl_->decode.observe(report.decode_s);
  impl_->total.observe(report.total_s);
}

void ServerMetrics::http_request(std::string_view route, int status, double seconds) {
  impl_->http_requests->Add({{"route", std::string(route)}, {"status", std::to_string(status)}}).Increment();
  impl_->http_seconds.observe(seconds);
}

void ServerMetrics::grpc_request(std::string_view method, std::string_view code, double seconds) {
  impl_->grpc_requests->Add({{"method", std::string(method)}, {"code", std::string(code)}}).Increment();
  impl_->grpc_seconds.observe(seconds);
}

void ServerMetrics::call_begins() {
  impl_->live_calls.fetch_add(1);
}
void ServerMetrics::call_ends() {
  impl_->live_calls.fetch_sub(1);
}
int ServerMetrics::live_calls() const {
  return impl_->live_calls.load();
}

std::string ServerMetrics::serialize(const EngineStats* engine, const HttpStats& http) {
  Impl& m = *impl_;
  const std::lock_guard lock(m.scrape_mutex);
  m.connections.set(http.connections);
  m.exchanges.set(http.exchanges);
  m.calls.set(m.live_calls.load());
  m.overflows.advance_to(static_cast<double>(http.overflows_total));
  m.disconnects.advance_to(static_cast<double>(http.disconnects_total));
  if (engine != nullptr && m.has_model.load()) {
    const int used = engine->total_blocks - engine->free_blocks;
    m.waiting.set(engine->waiting);
    m.running.set(engine->running);
    m.kv_free.set(engine->free_blocks);
    m.kv_total.set(engine->total_blocks);
    m.kv_usage.set(engine->total_blocks > 0 ? static_cast<double>(used) / engine->total_blocks : 0);
    m.prompt_tokens.advance_to(static_cast<double>(engine->prompt_tokens_total));
    m.generated_tokens.advance_to(static_cast<double>(engine->generation_tokens_total));
    m.preemptions.advance_to(static_cast<double>(engine->preemptions_total));
    m.drafted.advance_to(static_cast<double>(engine->drafted_tokens_total));
    m.accepted.advance_to(static_cast<double>(engine->accepted_tokens_total));
    // Before the first verified draft there is nothing to estimate from.
    if (engine->drafted_tokens_total > 0) m.show_acceptance(engine->draft_acceptance);
    if (std::exchange(m.shown_blocks, engine->total_blocks) != engine->total_blocks) {
      Labels labels = m.model_labels;
      labels["block_size"] = std::to_string(m.kv_block_tokens);
      labels["num_gpu_blocks"] = std::to_string(engine->total_blocks);
      m.cache_info->Add(labels).Set(1);
    }
  }
  return prometheus::TextSerializer().Serialize(m.registry.Collect());
}

}  // namespace lynx::server
