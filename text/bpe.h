#pragma once

// Byte-pair encoding of one pre-tokenized piece.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "text/token_table.h"
#include "text/tokenizer_spec.h"

namespace lynx::text {

/// Working memory of one encode call; reused from piece to piece. One thread.
class BpeScratch {
 private:
  friend class BytePairEncoder;

  /// A symbol of the linked list that long pieces are merged in.
  struct Symbol {
    std::int32_t id = -1;  ///< −1 = merged away
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };
  /// A pair that may merge; stale when its symbols have changed since.
  struct Candidate {
    std::uint32_t rank = 0;
    std::int32_t position = 0;
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t merged = 0;
  };
  /// Order of a min-heap: lowest rank first, then leftmost.
  static bool later(const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.position > b.position; }

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

/// Immutable; any thread may encode with its own scratch.
class BytePairEncoder {
 public:
  /// `tokens` must outlive the encoder and hold the bytes of all ids, indexed. INVALID_ARGUMENT names a merge of unknown tokens.
  static Result<BytePairEncoder> create(const TokenizerSpec& spec, const TokenTable& tokens);

  /// Appends the ids of `piece`. Bytes that are no token by themselves are left out, as in Hugging Face `tokenizers` (SmolLM2 lacks
  /// 21 bytes). Time O(n log n) in the piece's length.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const;

 private:
  BytePairEncoder(const TokenTable& tokens, std::size_t merges) : tokens_(&tokens), merges_(merges) {}

  Status add_merges(const TokenizerSpec& spec);
  void mark_whole_pieces(const TokenizerSpec& spec);
  void merge(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const;
  void merge_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void merge_long(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const;
  void link_symbols(std::string_view piece, BpeScratch& scratch) const;
  void push_candidate(BpeScratch& scratch, std::int32_t position) const;

  const TokenTable* tokens_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_{};  ///< −1 = the vocabulary lacks the byte.
  /// By id: a piece with just these bytes is this one token. Found once, at start, so that common words need no merging.
  std::vector<bool> whole_piece_;
};

}  // namespace lynx::text
