#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::text {

/// Byte-level BPE (GPT-2 family), equal to Hugging Face `tokenizers` token for token. Immutable; any thread may call it.
class Tokenizer {
 public:
  /// A longer text is refused: positions are 32-bit, and NFC may make it thrice as long.
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 29;

  /// INVALID_ARGUMENT naming the token or merge that is broken (a merge of unknown tokens, a special token that is too long, an id
  /// out of range).
  static Result<Tokenizer> create(const TokenizerSpec& spec);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Valid UTF-8 in (checked: INVALID_ARGUMENT with the byte offset), token ids out. With `parse_special`, control tokens written
  /// out in the text (such as "<|im_start|>") become their ids; else they are text. User-defined tokens always match. No bos is
  /// added here. decode() gives the text back, but for two things that are as in `tokenizers`: a normalizer changes the text first,
  /// and bytes the vocabulary has no token for (SmolLM2: U+0004, five more control characters, planes 4 to 11) are left out.
  /// Time O(n log n) at worst, about linear on ordinary text.
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool parse_special) const;

  /// The raw bytes of one token: a piece of UTF-8 that may be incomplete. Control and user-defined tokens give their literal text.
  /// Empty for unused ids and ids out of range.
  std::string_view token_bytes(std::int32_t id) const;
  bool is_control(std::int32_t id) const;  ///< False for ids out of range.

  /// Bytes of all ids joined; control tokens are left out when `skip_special`. May be incomplete UTF-8; see Utf8Assembler.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  int vocabulary() const;    ///< Ids are 0 … vocabulary() − 1.
  std::int32_t bos() const;  ///< −1 = none
  std::int32_t eos() const;
  bool add_bos() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::text
