#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lynx::text {

/// How text is cut before BPE merges run inside each piece.
enum class PreTokenizer { kGpt2, kLlama3, kQwen2, kSmolLm };

/// What happens to the text before it is cut. Qwen2's tokenizer.json asks for NFC; its GGUF files (pre-tokenizer "qwen2") do not
/// say so, and mean it.
enum class Normalizer { kNone, kNfc };

/// Everything a byte-level BPE tokenizer is made from, whatever file it came out of (GGUF metadata or tokenizer.json).
struct TokenizerSpec {
  /// kUnused: an id that no text encodes to, such as padding of the embedding; its text may be empty and is not unique.
  enum class TokenKind : std::uint8_t { kNormal, kControl, kUserDefined, kUnused };
  struct Token {
    std::string text;  ///< Normal tokens: GPT-2's printable byte alphabet; control and user-defined ones: literal text.
    TokenKind kind = TokenKind::kNormal;
    /// For control and user-defined tokens: white space before / after a match belongs to it (`lstrip` / `rstrip` of
    /// tokenizer.json). Its `single_word`, and `normalized` together with a normalizer, are not supported: loaders refuse them.
    bool strip_left = false;
    bool strip_right = false;
  };
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  Normalizer normalizer = Normalizer::kNone;
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
