#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/lynx/v1/inference.grpc.pb.h"
#include "server/grpc_server.h"
#include "server/inference_service.h"
#include "server/worker_pool.h"
#include "tests/catch.h"
#include "tests/server/eventually.h"
#include "tests/server/http_byte_tokenizer.h"
#include "tests/server/http_fake_engine.h"

namespace lynx::server::testing {

/// The gRPC front on a free loopback port, with a fake engine behind it and a client before it.
class GrpcFront {
 public:
  struct Options {
    std::vector<std::string> api_keys{};
    bool loaded = true;
    int max_model_len = 256;
  };

  GrpcFront() : GrpcFront(Options{}) {}
  explicit GrpcFront(const Options& options)
      : inference(std::make_unique<InferenceService>(options.api_keys, metrics)),
        engine(std::make_unique<FakeEngine>(options.max_model_len)) {
    auto started = GrpcServer::start("127.0.0.1", 0, {inference->service()});
    REQUIRE(started.ok());
    server = std::move(started).value();
    backend.engine = engine.get();
    backend.text = {&tokenizer, &chat_template};
    backend.limits = {
        .model_names = {"tiny", "org/tiny"}, .vocabulary = tokenizer.vocabulary(), .max_model_len = options.max_model_len};
    backend.created = 1'700'000'000;
    backend.isa = "portable";
    if (options.loaded) load();
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials());
    stub = v1::Inference::NewStub(channel);
  }
  /// In the daemon's order: the engine's last updates still find the service.
  ~GrpcFront() {
    server->stop();
    workers.reset();
    engine.reset();
  }
  GrpcFront(const GrpcFront&) = delete;
  GrpcFront& operator=(const GrpcFront&) = delete;

  void load() {
    inference->set_backend(&backend, workers.get());
    server->set_serving(true);
  }

  /// Nothing is held for any request any more.
  bool idle() {
    return eventually([this] { return engine->live() == 0 && metrics.live_calls() == 0; });
  }

  /// All that one call gave.
  struct Answer {
    grpc::Status status;
    std::vector<v1::GenerateResponse> messages;
    std::vector<std::string> texts;
    std::vector<std::vector<v1::Token>> tokens;
    std::vector<v1::FinishReason> finishes;
  };
  Answer generate(const v1::GenerateRequest& request, grpc::ClientContext* context) {
    Answer answer;
    const auto reader = stub->Generate(context, request);
    for (v1::GenerateResponse message; reader->Read(&message);) {
      for (const v1::ChoiceDelta& choice : message.choices()) {
        const auto index = static_cast<std::size_t>(choice.index());
        if (answer.texts.size() <= index) {
          answer.texts.resize(index + 1);
          answer.tokens.resize(index + 1);
          answer.finishes.resize(index + 1);
        }
        answer.texts[index] += choice.text();
        answer.tokens[index].insert(answer.tokens[index].end(), choice.tokens().begin(), choice.tokens().end());
        if (choice.has_finish_reason()) answer.finishes[index] = choice.finish_reason();
      }
      answer.messages.push_back(message);
    }
    answer.status = reader->Finish();
    return answer;
  }
  Answer generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    return generate(request, &context);
  }

  text::Tokenizer tokenizer = byte_tokenizer();
  text::ChatTemplate chat_template = simple_chat_template();
  ServerMetrics metrics;
  std::unique_ptr<InferenceService> inference;
  std::unique_ptr<GrpcServer> server;
  std::unique_ptr<FakeEngine> engine;
  ServingBackend backend;
  std::unique_ptr<WorkerPool> workers = std::make_unique<WorkerPool>(2);
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Inference::Stub> stub;
};

inline v1::GenerateRequest text_request(const std::string& text, int max_tokens = 16) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_max_tokens(max_tokens);
  return request;
}

}  // namespace lynx::server::testing
