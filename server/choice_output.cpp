#include "server/choice_output.h"

#include <string>
#include <utility>

#include "text/utf8.h"

namespace lynx::server {

ChoiceOutput::ChoiceOutput(std::shared_ptr<const text::StopStrings> stops, bool include_stop_text, int min_tokens)
    : matcher_(std::move(stops), include_stop_text), min_tokens_(min_tokens) {}

void ChoiceOutput::push(TokenOutput token, std::string_view bytes) {
  ++tokens_;
  const std::size_t begin = assembler_.code_points();
  release_text(assembler_.push(bytes));
  // A token that ends inside a code point is held until that is whole.
  const std::size_t end = assembler_.code_points() + (assembler_.held_bytes() > 0 ? 1 : 0);
  held_.push_back({std::move(token), begin, end});
  release_tokens(false);
}

void ChoiceOutput::release_text(const std::string& text) {
  if (tokens_ <= min_tokens_) {
    unmatched_code_points_ += text::count_code_points(text);
    ready_.text += text;
    return;
  }
  ready_.text += matcher_.feed(text).text;
}

// After a stop string: the tokens whose text begins before the cut; those beyond it are not part of the answer.
void ChoiceOutput::release_tokens(bool all) {
  const std::size_t released = released_code_points();
  while (!held_.empty()) {
    const Held& next = held_.front();
    const bool whole = next.end <= released;
    const bool cut = stopped() && next.begin < released;
    if (!whole && !cut && !all) break;
    ready_.text_offsets.push_back(static_cast<std::int32_t>(next.begin));
    ready_.tokens.push_back(std::move(held_.front().token));
    held_.pop_front();
  }
}

void ChoiceOutput::finish(FinishReason reason) {
  if (!stopped()) {
    release_text(assembler_.finish());
    ready_.text += matcher_.flush();
    release_tokens(true);
  }
  ready_.finish = reason;
}

ChoiceUpdate ChoiceOutput::take() {
  return std::exchange(ready_, {});
}

}  // namespace lynx::server
