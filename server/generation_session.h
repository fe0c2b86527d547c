#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/engine.h"
#include "server/generation_plan.h"
#include "server/http_call.h"
#include "server/openai_response.h"

namespace lynx::server {

/// Runs a plan and answers its call. Lives on the I/O thread, which also runs the engine's updates (the engine's thread only posts
/// them), so nothing here is locked. Owned by the sinks that the engine holds; a client that leaves cancels the engine requests.
class GenerationSession final : public std::enable_shared_from_this<GenerationSession> {
 public:
  /// On the I/O thread. `engine`, `io` and `tokenizer` outlive the session.
  static std::shared_ptr<GenerationSession> start(GenerationPlan plan, std::shared_ptr<ApiCall> call, Engine& engine,
                                                  TaskRunner& io, const text::Tokenizer& tokenizer);

  GenerationSession(GenerationPlan plan, std::shared_ptr<ApiCall> call, Engine& engine, const text::Tokenizer& tokenizer);

  /// Cancels what runs and answers with `error`, unless the answer is complete.
  void fail(const ApiError& error);

 private:
  struct Prompt {
    std::string request_id;
    Usage usage;
    std::optional<Receipt> receipt{};
    bool echoed = false;
    bool finished = false;
    std::int32_t echo_code_points = 0;
  };
  class Sink;

  void submit_all(TaskRunner& io);
  void on_update(std::size_t prompt, GenerationUpdate update);
  void echo(std::size_t prompt, const std::vector<TokenOutput>& tokens);
  void begin_stream();
  void emit(ChoicePart part, bool bulk = false);
  void complete();
  std::vector<Receipt> receipts() const;
  void cancel();
  bool write(const Json& chunk, bool bulk = false);

  GenerationPlan plan_;
  const std::shared_ptr<ApiCall> call_;
  Engine& engine_;
  const text::Tokenizer& tokenizer_;
  std::vector<Prompt> prompts_;
  std::vector<ChoicePart> choices_;  ///< Unary: all of each; streams: only index and finish.
  bool streaming_ = false;
  bool ended_ = false;
};

}  // namespace lynx::server
