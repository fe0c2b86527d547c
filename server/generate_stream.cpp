#include "server/generate_stream.h"

#include <chrono>
#include <exception>
#include <utility>

#include "common/log.h"
#include "server/inference_request.h"
#include "server/inference_response.h"

namespace lynx::server {
namespace {

/// What a client may leave unread, as over HTTP.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
/// For reading what is left when the generation is over.
constexpr std::chrono::seconds kLastWordsTimeout{60};

}  // namespace

/// Carries the engine's updates over to the stream's runner.
class GenerateStream::Sink final : public UpdateSink {
 public:
  explicit Sink(std::shared_ptr<GenerateStream> stream) : stream_(std::move(stream)) {}

  void on_update(GenerationUpdate update) override {
    auto moved = std::make_shared<GenerationUpdate>(std::move(update));
    stream_->post([moved](GenerateStream& stream) { stream.on_update(std::move(*moved)); });
  }

 private:
  const std::shared_ptr<GenerateStream> stream_;
};

GenerateStream::GenerateStream(const Context& context, std::unique_ptr<GrpcCall> call)
    : context_(context), call_(std::move(call)), buffer_limit_(kBufferBytes) {}

/// Runs `task` on the updates runner. What throws (for lack of memory, say) ends this call, not the process.
template <class Task>
void GenerateStream::post(Task task) {
  context_.updates.post([self = shared_from_this(), task]() mutable {
    try {
      task(*self);
    } catch (const std::exception& error) {
      self->end({Code::kInternal, std::string("the answer could not be made: ") + error.what()});
    }
  });
}

void GenerateStream::start() {
  self_ = shared_from_this();
  planning_ = true;
  context_.workers->post([self = shared_from_this()] { self->plan(); });
}

void GenerateStream::refuse(const Status& status) {
  self_ = shared_from_this();
  fail(status);
}

void GenerateStream::fail(const Status& status) {
  post([status](GenerateStream& stream) { stream.end(status); });
}

/// On a worker.
void GenerateStream::plan() {
  Status status(Code::kCancelled, "the client has gone");
  auto made = std::make_shared<GenerationPlan>();
  try {
    if (!cancelled_.load()) {
      auto plan = plan_generate(context_.request, *context_.backend, call_->request_id());
      status = plan.ok() ? Status() : status_from_error(plan.error());
      if (plan.ok()) *made = std::move(plan.value());
    }
  } catch (const std::exception& error) {
    status = internal_error(error.what());
  }
  post([status, made](GenerateStream& stream) {
    stream.planning_ = false;
    if (stream.ended_) return stream.pump();
    if (!status.ok()) return stream.end(status);
    stream.submit(std::move(*made));
  });
}

void GenerateStream::submit(GenerationPlan plan) {
  plan_ = std::move(plan);
  GenerateRequest request = std::move(plan_.requests.front());
  std::string id = request.request_id;
  if (Status status = context_.backend->engine->submit(std::move(request), std::make_shared<Sink>(shared_from_this()));
      !status.ok()) {
    return end(status);
  }
  engine_id_ = std::move(id);
}

void GenerateStream::on_update(GenerationUpdate update) {
  if (update.finished) engine_id_.clear();
  if (ended_) return;
  if (!update.error.ok()) {
    // Nobody but the engine itself can have cancelled it: it is going down.
    const bool gone = update.error.code() == Code::kCancelled;
    return end(gone ? Status(Code::kUnavailable, update.error.message()) : update.error);
  }
  v1::GenerateResponse message;
  const text::Tokenizer& tokenizer = *context_.backend->text.tokenizer;
  if (!begun_) {
    begin(&message);
    if (plan_.echo) {
      write(std::exchange(message, {}), true);
      for (auto& piece : echo_messages(plan_, update.prompt_tokens, tokenizer)) write(std::move(piece), true);
      echo_code_points_ = count_code_points(plan_.prompts.front().text);
    }
  }
  for (ChoiceUpdate& choice : update.choices) {
    if (choice.text.empty() && choice.tokens.empty() && !choice.finish && !choice.provisional) continue;
    ChoicePart part{.index = choice.choice,
                    .text = std::move(choice.text),
                    .tokens = std::move(choice.tokens),
                    .text_offsets = std::move(choice.text_offsets),
                    .finish = choice.finish,
                    .provisional = std::move(choice.provisional)};
    for (std::int32_t& offset : part.text_offsets) offset += echo_code_points_;
    fill_choice(part, plan_.with_logprobs, tokenizer, message.add_choices());
  }
  if (update.finished) fill_usage(update.usage, message.mutable_usage());
  if (update.receipt) fill_receipt(*update.receipt, message.mutable_receipt());
  if (message.choices_size() > 0 || update.finished || !message.id().empty()) write(std::move(message), false);
  if (update.finished) end({});
}

void GenerateStream::begin(v1::GenerateResponse* first) {
  begun_ = true;
  first->set_id(plan_.head.id);
  first->set_model(plan_.head.model);
  first->set_created(plan_.head.created);
}

/// `bulk`: it came into being all at once, so its size says nothing about the client's speed.
void GenerateStream::write(v1::GenerateResponse message, bool bulk) {
  if (ended_) return;
  const std::size_t bytes = message.ByteSizeLong();
  if (bulk) {
    buffer_limit_ += 2 * bytes;
  } else if (buffered_bytes_ > 0 && buffered_bytes_ + bytes > buffer_limit_) {
    log_warning("stream aborted: the client reads too slowly",
                {{"request_id", call_->request_id()}, {"buffered_bytes", static_cast<std::int64_t>(buffered_bytes_)}});
    end(resource_exhausted("the client reads too slowly"));
    return cancel();
  }
  buffered_bytes_ += bytes;
  queue_.push_back(std::move(message));
  pump();
}

void GenerateStream::written(bool ok) {
  writing_ = false;
  buffered_bytes_ -= current_.ByteSizeLong();
  if (!ok) {
    cancelled_.store(true);
    end({Code::kCancelled, "the client has gone"});
  }
  pump();
}

/// Nothing more is generated; what is queued is still written, then the status.
void GenerateStream::end(Status status) {
  if (std::exchange(ended_, true)) return;
  if (!engine_id_.empty()) context_.backend->engine->cancel(engine_id_);
  final_ = std::move(status);
  pump();
  if (finished_) return;
  last_words_.Set(std::chrono::system_clock::now() + kLastWordsTimeout, [weak = weak_from_this()](bool fired) {
    auto self = weak.lock();
    if (fired && self != nullptr) self->post([](GenerateStream& stream) { stream.cancel(); });
  });
}

/// Takes the call from the client, who sees CANCELLED: a write that it does not read would never end.
void GenerateStream::cancel() {
  if (finished_) return;
  cancelled_.store(true);
  context_.rpc.TryCancel();
  pump();
}

/// The next write, or the status when all is written.
void GenerateStream::pump() {
  if (planning_ || writing_ || finished_) return;
  if (cancelled_.load()) queue_.clear();
  if (!queue_.empty()) {
    current_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    return StartWrite(&current_);
  }
  if (!final_) return;
  finished_ = true;
  last_words_.Cancel();
  Finish(call_->finish(*final_));
}

void GenerateStream::OnWriteDone(bool ok) {
  post([ok](GenerateStream& stream) { stream.written(ok); });
}

void GenerateStream::OnCancel() {
  cancelled_.store(true);
  post([](GenerateStream& stream) {
    if (stream.finished_) return;
    const bool late = stream.context_.rpc.deadline() <= std::chrono::system_clock::now();
    const Status status =
        late ? Status(Code::kDeadlineExceeded, "the client's deadline has passed") : Status(Code::kCancelled, "cancelled");
    stream.end(status);
    if (stream.finished_) return;
    if (stream.final_->ok()) stream.final_ = status;  // generated, but not delivered
    stream.pump();
  });
}

void GenerateStream::OnDone() {
  // May be the last holder; nothing touches members behind this line.
  const std::shared_ptr<GenerateStream> self = std::move(self_);
}

}  // namespace lynx::server
