#include "server/inference_service.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proto/lynx/v1/inference.grpc.pb.h"
#include "server/generate_stream.h"
#include "server/grpc_call.h"
#include "server/http_call.h"
#include "server/inference_request.h"
#include "server/worker_pool.h"

namespace lynx::server {
namespace {

constexpr int kMaxCalls = 2048;                                   ///< As HttpLimits::connections.
constexpr std::size_t kMaxRequestBytes = std::size_t{256} << 20;  ///< As HttpLimits::total_request_bytes.
constexpr std::size_t kFirstSweep = 64;

std::string metadata(const grpc::CallbackServerContext& context, const char* name) {
  const auto it = context.client_metadata().find(name);
  return it == context.client_metadata().end() ? std::string() : std::string(it->second.data(), it->second.size());
}

}  // namespace

class InferenceService::Impl final : public v1::Inference::CallbackService {
 public:
  Impl(ApiKeys api_keys, ServerMetrics& metrics) : api_keys_(std::move(api_keys)), metrics_(metrics) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context, const v1::GetModelInfoRequest* request,
                                         v1::GetModelInfoResponse* response) override;

  void set_backend(const ServingBackend* backend, TaskRunner* workers) {
    workers_ = workers;
    backend_.store(backend);
  }
  void begin_drain() { draining_.store(true); }
  void abort_generations();

 private:
  std::unique_ptr<GrpcCall> begin(grpc::CallbackServerContext* context, const char* method);
  Status admit(const grpc::CallbackServerContext& context, GrpcCall& call, std::size_t request_bytes);
  template <class Work>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const char* method, std::size_t request_bytes, Work work);

  const ApiKeys api_keys_;
  ServerMetrics& metrics_;
  std::atomic<const ServingBackend*> backend_{nullptr};
  TaskRunner* workers_ = nullptr;  ///< Before backend_ is.
  std::atomic<bool> draining_{false};
  GrpcBudget budget_{kMaxCalls, kMaxRequestBytes};
  std::mutex mutex_;                                    // guards the next two
  std::vector<std::weak_ptr<GenerateStream>> streams_;  ///< May hold some that have ended.
  std::size_t sweep_at_ = kFirstSweep;
  WorkerPool updates_{1};  ///< Last in, first to go: its tasks use the rest.
};

std::unique_ptr<GrpcCall> InferenceService::Impl::begin(grpc::CallbackServerContext* context, const char* method) {
  const std::string request_id = request_id_for(metadata(*context, "x-request-id"));
  context->AddInitialMetadata("x-request-id", request_id);
  return std::make_unique<GrpcCall>(method, request_id, metrics_);
}

/// In the order of the HTTP front, so that both say the same.
Status InferenceService::Impl::admit(const grpc::CallbackServerContext& context, GrpcCall& call, std::size_t request_bytes) {
  if (!api_keys_.allow(metadata(context, "authorization"))) return {Code::kUnauthenticated, ApiKeys::kRefusal};
  if (draining_.load()) return {Code::kUnavailable, "the server is shutting down"};
  if (backend_.load() == nullptr) return {Code::kUnavailable, "the model is still loading"};
  return call.charge(budget_, request_bytes);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Impl::Generate(grpc::CallbackServerContext* context,
                                                                                 const v1::GenerateRequest* request) {
  auto call = begin(context, "Generate");
  const Status admitted = admit(*context, *call, request->ByteSizeLong());
  const GenerateStream::Context around{*context, *request, backend_.load(), workers_, updates_};
  const auto stream = std::make_shared<GenerateStream>(around, std::move(call));
  if (!admitted.ok()) {
    stream->refuse(admitted);
    return stream.get();
  }
  {
    const std::lock_guard lock(mutex_);
    if (streams_.size() >= sweep_at_) {
      std::erase_if(streams_, [](const auto& weak) { return weak.expired(); });
      sweep_at_ = kFirstSweep + 2 * streams_.size();
    }
    streams_.push_back(stream);
  }
  stream->start();
  return stream.get();
}

void InferenceService::Impl::abort_generations() {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : streams_) {
    if (const auto stream = weak.lock()) stream->fail({Code::kUnavailable, "the server is shutting down"});
  }
}

/// One answer, made on a worker by `work(backend)`.
template <class Work>
grpc::ServerUnaryReactor* InferenceService::Impl::answer(grpc::CallbackServerContext* context, const char* method,
                                                         std::size_t request_bytes, Work work) {
  auto* reactor = context->DefaultReactor();
  const std::shared_ptr<GrpcCall> call = begin(context, method);
  if (const Status admitted = admit(*context, *call, request_bytes); !admitted.ok()) {
    reactor->Finish(call->finish(admitted));
    return reactor;
  }
  workers_->post([backend = backend_.load(), reactor, call, work] {
    Status status;
    try {
      status = work(*backend);
    } catch (const std::exception& error) {
      status = internal_error(error.what());
    }
    reactor->Finish(call->finish(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Impl::Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                                           v1::TokenizeResponse* response) {
  return answer(context, "Tokenize", request->ByteSizeLong(), [request, response](const ServingBackend& backend) -> Status {
    auto encoded = encode_for_tokenize(*request, backend);
    if (!encoded.ok()) return status_from_error(encoded.error());
    response->mutable_tokens()->Add(encoded->tokens.begin(), encoded->tokens.end());
    response->set_max_model_len(backend.limits.max_model_len);
    if (!request->with_pieces()) return {};
    for (const std::int32_t id : encoded->tokens) response->add_pieces(std::string(backend.text.tokenizer->token_bytes(id)));
    return {};
  });
}

grpc::ServerUnaryReactor* InferenceService::Impl::Detokenize(grpc::CallbackServerContext* context,
                                                             const v1::DetokenizeRequest* request,
                                                             v1::DetokenizeResponse* response) {
  return answer(context, "Detokenize", request->ByteSizeLong(), [request, response](const ServingBackend& backend) -> Status {
    auto text = detokenize(*request, backend);
    if (!text.ok()) return status_from_error(text.error());
    response->set_text(std::move(text.value()));
    return {};
  });
}

grpc::ServerUnaryReactor* InferenceService::Impl::GetModelInfo(grpc::CallbackServerContext* context,
                                                               const v1::GetModelInfoRequest* request,
                                                               v1::GetModelInfoResponse* response) {
  return answer(context, "GetModelInfo", request->ByteSizeLong(), [response](const ServingBackend& backend) -> Status {
    for (const std::string& name : backend.limits.model_names) response->add_names(name);
    const text::Tokenizer& tokenizer = *backend.text.tokenizer;
    response->set_created(backend.created);
    response->set_max_model_len(backend.limits.max_model_len);
    response->set_vocabulary(backend.limits.vocabulary);
    if (tokenizer.bos() >= 0) response->set_bos_token(tokenizer.bos());
    if (tokenizer.eos() >= 0) response->set_eos_token(tokenizer.eos());
    response->set_add_bos_token(tokenizer.add_bos());
    response->set_chat(backend.text.chat_template != nullptr);
    response->set_server_version(LYNX_VERSION);
    response->set_isa(backend.isa);
    return {};
  });
}

InferenceService::InferenceService(ApiKeys api_keys, ServerMetrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(api_keys), metrics)) {}
InferenceService::~InferenceService() = default;

GrpcService InferenceService::service() {
  return {v1::Inference::service_full_name(), impl_.get()};
}

void InferenceService::set_backend(const ServingBackend* backend, TaskRunner* workers) {
  impl_->set_backend(backend, workers);
}

void InferenceService::begin_drain() {
  impl_->begin_drain();
}

void InferenceService::abort_generations() {
  impl_->abort_generations();
}

}  // namespace lynx::server
