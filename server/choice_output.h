#pragma once

// What of one choice may be shown: bytes of tokens in, final text and tokens out. Incomplete UTF-8 and anything that may become a
// stop string is held back, and each token with its text.

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>

#include "server/engine.h"
#include "text/stop_matcher.h"
#include "text/utf8_assembler.h"

namespace lynx::server {

/// Of committed tokens alone: nothing is ever taken back.
class ChoiceOutput {
 public:
  /// `stops` may be null. Stop strings are looked for in the text after the first `min_tokens` tokens.
  ChoiceOutput(std::shared_ptr<const text::StopStrings> stops, bool include_stop_text, int min_tokens);

  /// Takes a token that adds `bytes` to the text.
  void push(TokenOutput token, std::string_view bytes);

  /// A stop string is complete; the text ends before it (behind it with include_stop_text).
  bool stopped() const { return matcher_.stopped(); }

  /// Gives what is held back free. Call once, after the last push.
  void finish(FinishReason reason);

  /// Whether take() would return anything.
  bool has_update() const { return !ready_.text.empty() || !ready_.tokens.empty() || ready_.finish.has_value(); }

  /// What became final since the last call; `choice` is left to the caller.
  ChoiceUpdate take();

 private:
  struct Held {
    TokenOutput token;
    std::size_t begin;  ///< Where its text begins and ends in the whole text, in code points.
    std::size_t end;
  };
  void release_text(const std::string& text);
  void release_tokens(bool all);
  std::size_t released_code_points() const { return unmatched_code_points_ + matcher_.released_code_points(); }

  text::Utf8Assembler assembler_;
  text::StopMatcher matcher_;
  int min_tokens_;
  int tokens_ = 0;
  std::size_t unmatched_code_points_ = 0;  ///< Text that went past the matcher, because of min_tokens.
  std::deque<Held> held_;
  ChoiceUpdate ready_;
};

}  // namespace lynx::server
