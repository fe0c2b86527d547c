#pragma once

// Cuts text into the pieces inside which BPE merges run.

#include <cstddef>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::text {

/// A compiled pattern (PCRE2). Immutable; each thread cuts with its own PieceScanner.
class PieceSplitter {
 public:
  static Result<PieceSplitter> create(PreTokenizer kind);

 private:
  friend class PieceScanner;
  struct Code;
  explicit PieceSplitter(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

/// Walks over the pieces of one text after another. One thread. Time is linear in the text.
class PieceScanner {
 public:
  /// RESOURCE_EXHAUSTED when memory for matching cannot be had.
  static Result<PieceScanner> create(const PieceSplitter& splitter);
  PieceScanner(PieceScanner&&) noexcept;
  PieceScanner& operator=(PieceScanner&&) noexcept;
  ~PieceScanner();

  /// Starts on `text`: valid UTF-8 (not checked) that outlives the scan.
  void start(std::string_view text);

  /// The next piece, empty at the end. Joined, the pieces are the text. An error of the matcher is INTERNAL; pieces are never left
  /// out silently.
  Result<std::string_view> next();

 private:
  struct State;
  explicit PieceScanner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lynx::text
