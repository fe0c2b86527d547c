#include "server/generation_session.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace lynx::server {

/// Carries the updates of one engine request over to the I/O thread.
class GenerationSession::Sink final : public UpdateSink {
 public:
  Sink(std::shared_ptr<GenerationSession> session, std::size_t prompt, TaskRunner& io)
      : session_(std::move(session)), prompt_(prompt), io_(io) {}

  void on_update(GenerationUpdate update) override {
    auto moved = std::make_shared<GenerationUpdate>(std::move(update));
    io_.post([session = session_, prompt = prompt_, moved] {
      try {
        session->on_update(prompt, std::move(*moved));
      } catch (const std::exception& error) {
        session->fail(plain_error(500, std::string("the answer could not be written: ") + error.what()));
      }
    });
  }

 private:
  const std::shared_ptr<GenerationSession> session_;
  const std::size_t prompt_;
  TaskRunner& io_;
};

GenerationSession::GenerationSession(GenerationPlan plan, std::shared_ptr<ApiCall> call, Engine& engine,
                                     const text::Tokenizer& tokenizer)
    : plan_(std::move(plan)), call_(std::move(call)), engine_(engine), tokenizer_(tokenizer) {
  for (const GenerateRequest& request : plan_.requests) {
    prompts_.emplace_back().request_id = request.request_id;
    for (int i = 0; i < plan_.choices_per_prompt; ++i) {
      const auto index = static_cast<int>(choices_.size());
      choices_.emplace_back().index = index;
    }
  }
}

std::shared_ptr<GenerationSession> GenerationSession::start(GenerationPlan plan, std::shared_ptr<ApiCall> call, Engine& engine,
                                                            TaskRunner& io, const text::Tokenizer& tokenizer) {
  auto session = std::make_shared<GenerationSession>(std::move(plan), std::move(call), engine, tokenizer);
  try {
    session->submit_all(io);
  } catch (const std::exception& error) {  // for lack of memory, say: it ends this request, not the process
    session->fail(plain_error(500, std::string("the generation could not be started: ") + error.what()));
  }
  return session;
}

void GenerationSession::submit_all(TaskRunner& io) {
  if (call_->aborted()) return;
  if (plan_.stream) call_->keep_alive();
  for (std::size_t i = 0; i < plan_.requests.size(); ++i) {
    const Status status = engine_.submit(std::move(plan_.requests[i]), std::make_shared<Sink>(shared_from_this(), i, io));
    if (status.ok()) continue;
    ApiError error = error_from_status(status);
    // A full queue is the clients' doing; a draining server is not.
    if (status.code() == Code::kUnavailable && !engine_.stats().draining) error = plain_error(429, status.message(), "overloaded");
    return fail(error);
  }
  call_->on_abort([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->cancel();
  });
}

void GenerationSession::on_update(std::size_t index, GenerationUpdate update) {
  Prompt& prompt = prompts_[index];
  prompt.finished = prompt.finished || update.finished;
  if (ended_) return;
  if (!update.error.ok()) return fail(error_from_status(update.error));
  if (plan_.stream) begin_stream();
  if (plan_.echo && !std::exchange(prompt.echoed, true)) echo(index, update.prompt_tokens);
  prompt.usage = update.usage;
  if (update.receipt) prompt.receipt = update.receipt;
  for (ChoiceUpdate& choice : update.choices) {
    ChoicePart part{.index = static_cast<int>(index) * plan_.choices_per_prompt + choice.choice,
                    .text = std::move(choice.text),
                    .tokens = std::move(choice.tokens),
                    .text_offsets = std::move(choice.text_offsets),
                    .finish = choice.finish,
                    .provisional = std::move(choice.provisional)};
    for (std::int32_t& offset : part.text_offsets) offset += prompt.echo_code_points;
    emit(std::move(part));
  }
  if (std::all_of(prompts_.begin(), prompts_.end(), [](const Prompt& p) { return p.finished; })) complete();
}

void GenerationSession::echo(std::size_t index, const std::vector<TokenOutput>& tokens) {
  const EncodedPrompt& source = plan_.prompts[index];
  ChoicePart part =
      echo_part(source.text, plan_.with_logprobs ? tokens : std::vector<TokenOutput>{}, source.hidden_bos_tokens, tokenizer_);
  prompts_[index].echo_code_points = count_code_points(source.text);
  for (int i = 0; i < plan_.choices_per_prompt; ++i) {
    part.index = static_cast<int>(index) * plan_.choices_per_prompt + i;
    emit(part, true);
  }
}

void GenerationSession::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  call_->begin_stream();
  if (!plan_.head.chat) return;
  for (const ChoicePart& choice : choices_) write(role_chunk(plan_.head, choice.index));
}

/// Streams a part at once, or keeps it for the whole answer. `bulk`: its size says nothing about the client's speed.
void GenerationSession::emit(ChoicePart part, bool bulk) {
  if (ended_) return;
  ChoicePart& choice = choices_[static_cast<std::size_t>(part.index)];
  if (!plan_.stream) return choice.append(std::move(part));
  const std::optional<FinishReason> finish = part.finish;
  // Drafts go with the text that is added before them: apart, a client would show them behind the wrong text.
  const bool carries = !part.text.empty() || (plan_.with_logprobs && !part.tokens.empty()) || part.provisional;
  part.finish.reset();
  if (carries) write(delta_chunk(plan_.head, part, plan_.with_logprobs, tokenizer_), bulk);
  if (!finish) return;
  choice.finish = finish;
  write(delta_chunk(plan_.head, ChoicePart{.index = part.index, .finish = finish}, false, tokenizer_));
}

bool GenerationSession::write(const Json& chunk, bool bulk) {
  if (ended_) return false;
  std::string event = sse_event(chunk);
  if (bulk ? call_->bulk_event(std::move(event)) : call_->event(std::move(event))) return true;
  cancel();
  return false;
}

void GenerationSession::complete() {
  if (ended_) return;
  Usage usage;
  for (const Prompt& prompt : prompts_) {
    usage.prompt_tokens += prompt.usage.prompt_tokens;
    usage.completion_tokens += prompt.usage.completion_tokens;
    usage.cached_tokens += prompt.usage.cached_tokens;
  }
  const std::vector<Receipt> with_receipts = receipts();
  if (!plan_.stream) {
    Json body = unary_body(plan_.head, choices_, usage, plan_.with_logprobs, tokenizer_);
    if (!with_receipts.empty()) body["lynx"] = lynx_receipts(with_receipts);
    std::string text = dump_json(body);
    ended_ = true;  // only now: what throws above is answered by fail()
    return call_->respond_json(std::move(text));
  }
  if (plan_.include_usage || !with_receipts.empty()) {
    Json last = plan_.include_usage ? usage_chunk(plan_.head, usage) : empty_chunk(plan_.head);
    if (!with_receipts.empty()) last["lynx"] = lynx_receipts(with_receipts);
    write(last);
  }
  if (std::exchange(ended_, true)) return;
  call_->event(kSseDone);
  call_->end_stream();
}

/// Of all prompts in their order, if they were asked for.
std::vector<Receipt> GenerationSession::receipts() const {
  std::vector<Receipt> all;
  for (const Prompt& prompt : prompts_) {
    if (prompt.receipt) all.push_back(*prompt.receipt);
  }
  return all;
}

void GenerationSession::fail(const ApiError& error) {
  if (ended_) return;
  cancel();
  call_->respond_error(error);
}

void GenerationSession::cancel() {
  if (std::exchange(ended_, true)) return;
  for (const Prompt& prompt : prompts_) {
    if (!prompt.finished) engine_.cancel(prompt.request_id);
  }
}

}  // namespace lynx::server
