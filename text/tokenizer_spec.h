#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lynx::text {

/// How text is cut before BPE merges run inside each piece.
enum class PreTokenizer { kGpt2, kLlama3, kQwen2, kSmolLm };

/// Everything a byte-level BPE tokenizer is made from, whatever file it came out of (GGUF metadata or tokenizer.json).
struct TokenizerSpec {
  enum class TokenKind : std::uint8_t { kNormal, kControl, kUserDefined, kUnused };
  struct Token {
    std::string text;  ///< Normal tokens: GPT-2's printable byte alphabet; control and user-defined ones: literal text.
    TokenKind kind = TokenKind::kNormal;
  };
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  std::vector<Token> tokens;                                ///< Index = token id.
  std::vector<std::pair<std::string, std::string>> merges;  ///< In rank order.
  bool ignore_merges = false;                               ///< Llama 3: a piece that is a token as a whole is taken before merges.
  bool add_bos = false;                                     ///< Whether encoding a plain prompt starts with bos.
  std::int32_t bos = -1;                                    ///< −1 = none.
  std::int32_t eos = -1;
  std::int32_t pad = -1;
  std::int32_t unknown = -1;
};

}  // namespace lynx::text
