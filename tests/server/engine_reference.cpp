#include "tests/server/engine_reference.h"

#include <algorithm>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "text/utf8.h"
#include "text/utf8_assembler.h"

namespace lynx::server {
namespace {

using Tokens = std::vector<std::int32_t>;

std::string text_of(const Tokens& tokens, std::size_t count, bool at_end) {
  text::Utf8Assembler assembler;
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += fake_token_texts()[static_cast<std::size_t>(tokens[i])];
  std::string text = assembler.push(bytes);
  return at_end ? text + assembler.finish() : text;
}

struct Stop {
  std::size_t begin;
  std::size_t end;
};

// The stop string that is complete first, the longest of several; only in the text behind `from`.
std::optional<Stop> find_stop(const std::string& text, std::size_t from, const std::vector<std::string>& stops) {
  for (std::size_t end = from; end <= text.size(); ++end) {
    std::optional<Stop> best;
    for (const std::string& stop : stops) {
      if (stop.size() > end || end - stop.size() < from || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!best || end - stop.size() < best->begin) best = Stop{end - stop.size(), end};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TokenOutput token_output(std::int32_t id, std::span<const float> logits, int top) {
  TokenOutput output{.id = id, .logprob = 0, .top = {}};
  if (top >= 0) output.logprob = model::token_logprob(logits, id, top, &output.top).logprob;
  return output;
}

class ChoiceReference {
 public:
  ChoiceReference(const GenerateRequest& request, int index, int max_tokens)
      : request_(request), index_(index), max_tokens_(max_tokens), sequence_(request.prompt), ends_(request.stop_token_ids) {
    if (!request.ignore_eos) ends_.push_back(kFakeEndToken);
  }

  Collected::Choice answer() {
    while (!finish_ && static_cast<int>(generated_.size()) < max_tokens_) next_token();
    const std::string whole = text_of(shown_, shown_.size(), !stop_);
    Collected::Choice choice;
    choice.finish = finish_.value_or(FinishReason::kLength);
    choice.text = stop_ ? whole.substr(0, request_.include_stop_text ? stop_->end : stop_->begin) : whole;
    const std::size_t cut = text::count_code_points(choice.text);
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const std::size_t begin = text::count_code_points(text_of(shown_, i, false));
      if (stop_ && begin >= cut && !ends_by(i + 1, cut)) break;
      choice.tokens.push_back(outputs_[i]);
      choice.offsets.push_back(static_cast<std::int32_t>(begin));
    }
    return choice;
  }

  int completion_tokens() const { return static_cast<int>(generated_.size()); }

 private:
  // Does the text of the first `count` tokens, a code point begun by them counted, end within `cut` code points?
  bool ends_by(std::size_t count, std::size_t cut) const {
    text::Utf8Assembler assembler;
    for (std::size_t i = 0; i < count; ++i) assembler.push(fake_token_texts()[static_cast<std::size_t>(shown_[i])]);
    return assembler.code_points() + (assembler.held_bytes() > 0 ? 1 : 0) <= cut;
  }

  void next_token() {
    const std::vector<float> logits = fake_logits(sequence_);
    const model::SampleKey key{*request_.sampling.seed, static_cast<std::uint32_t>(index_),
                               static_cast<std::uint32_t>(generated_.size())};
    const std::int32_t id = model::sample(logits, request_.sampling, {request_.prompt, generated_, ends_}, key, scratch_);
    sequence_.push_back(id);
    generated_.push_back(id);
    const bool end = std::find(ends_.begin(), ends_.end(), id) != ends_.end();
    if (!end || request_.include_stop_text) {
      shown_.push_back(id);
      outputs_.push_back(token_output(id, logits, request_.top_logprobs));
    }
    const auto unmatched = std::min(shown_.size(), static_cast<std::size_t>(std::max(request_.sampling.min_tokens, 0)));
    stop_ = find_stop(text_of(shown_, shown_.size(), false), text_of(shown_, unmatched, false).size(), request_.stop);
    if (end || stop_) finish_ = FinishReason::kStop;
  }

  const GenerateRequest& request_;
  int index_;
  int max_tokens_;
  Tokens sequence_;
  Tokens generated_;
  Tokens ends_;
  Tokens shown_;
  std::vector<TokenOutput> outputs_;
  std::optional<Stop> stop_;
  std::optional<FinishReason> finish_;
  model::SampleScratch scratch_;
};

bool same_tokens(std::span<const TokenOutput> a, std::span<const TokenOutput> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TokenOutput& x, const TokenOutput& y) {
    return x.id == y.id && x.logprob == y.logprob &&
           std::equal(x.top.begin(), x.top.end(), y.top.begin(), y.top.end(),
                      [](const auto& s, const auto& t) { return s.token == t.token && s.logprob == t.logprob; });
  });
}

}  // namespace

Collected reference_answer(const GenerateRequest& request, int context) {
  Collected answer;
  const int prompt = static_cast<int>(request.prompt.size());
  answer.finished = true;
  answer.usage.prompt_tokens = prompt;
  for (int index = 0; index < request.choices; ++index) {
    ChoiceReference choice(request, index, std::min(request.max_tokens, context - prompt));
    answer.choices.push_back(choice.answer());
    answer.usage.completion_tokens += choice.completion_tokens();
  }
  if (request.prompt_top_logprobs < 0) return answer;
  answer.prompt_tokens.push_back({.id = request.prompt[0], .logprob = 0, .top = {}});
  for (std::size_t i = 1; i < request.prompt.size(); ++i) {
    const std::vector<float> logits = fake_logits(std::span(request.prompt).first(i));
    answer.prompt_tokens.push_back(token_output(request.prompt[i], logits, request.prompt_top_logprobs));
  }
  return answer;
}

std::string difference(const Collected& expected, const Collected& got) {
  if (!got.broken.empty()) return got.broken;
  if (!got.error.ok()) return "error " + got.error.to_string();
  if (!same_tokens(expected.prompt_tokens, got.prompt_tokens)) return "prompt tokens differ";
  if (expected.usage.prompt_tokens != got.usage.prompt_tokens) return "usage.prompt_tokens differs";
  if (expected.usage.completion_tokens != got.usage.completion_tokens) return "usage.completion_tokens differs";
  if (expected.choices.size() != got.choices.size()) return "number of choices differs";
  for (std::size_t i = 0; i < expected.choices.size(); ++i) {
    const std::string where = fmt::format("choice {}: ", i);
    if (expected.choices[i].text != got.choices[i].text) {
      return where + "text '" + got.choices[i].text + "' instead of '" + expected.choices[i].text + "'";
    }
    if (expected.choices[i].finish != got.choices[i].finish) return where + "finish differs";
    if (!same_tokens(expected.choices[i].tokens, got.choices[i].tokens)) return where + "tokens differ";
    if (expected.choices[i].offsets != got.choices[i].offsets) return where + "offsets differ";
  }
  return {};
}

std::string not_a_prefix(const Collected& whole, const Collected& got) {
  if (!got.broken.empty()) return got.broken;
  for (std::size_t i = 0; i < whole.choices.size(); ++i) {
    const auto& all = whole.choices[i];
    const auto& part = got.choices[i];
    if (all.text.compare(0, part.text.size(), part.text) != 0) return "the text is not a beginning of the whole";
    if (part.tokens.size() > all.tokens.size()) return "more tokens than the whole";
    if (!same_tokens(std::span(all.tokens).first(part.tokens.size()), part.tokens)) return "tokens differ";
  }
  return {};
}

}  // namespace lynx::server
