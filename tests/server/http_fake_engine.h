#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/engine.h"

namespace lynx::server::testing {

/// An engine without a model. Every choice of a request repeats the request's prompt, token by token, up to max_tokens; a script
/// may say otherwise. Tokens are those of byte_tokenizer(): a token is a byte.
class FakeEngine final : public Engine {
 public:
  /// All updates a request gets, in order; the last one must be `finished`.
  using Script = std::function<std::vector<GenerationUpdate>(const GenerateRequest&)>;

  explicit FakeEngine(int max_model_len = 256);
  ~FakeEngine() override;

  Status submit(GenerateRequest request, std::shared_ptr<UpdateSink> sink) override;
  void cancel(std::string_view request_id) override;
  void begin_drain() override;
  EngineStats stats() const override;
  int max_model_len() const override { return max_model_len_; }

  void set_script(Script script);
  /// While paused, accepted requests wait: as if queued or in a long prefill.
  void pause(bool paused);
  /// Lets every live request take this many updates, though the engine is paused.
  void step(int updates);
  /// The next submit() fails with this.
  void fail_next_submit(Status status);

  int live() const;
  int cancelled_total() const;
  int submitted_total() const;
  GenerateRequest last_request() const;

  static std::vector<GenerationUpdate> repeat_prompt(const GenerateRequest& request);

 private:
  struct Live {
    std::vector<GenerationUpdate> updates;
    std::size_t next = 0;
    std::shared_ptr<UpdateSink> sink;
    bool cancelled = false;
  };

  void run();

  const int max_model_len_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Live, std::less<>> live_;
  Script script_ = repeat_prompt;
  bool paused_ = false;
  int steps_ = 0;
  bool stopping_ = false;
  bool draining_ = false;
  Status next_failure_;
  int cancelled_total_ = 0;
  int submitted_total_ = 0;
  GenerateRequest last_request_;
  std::thread thread_;
};

}  // namespace lynx::server::testing
