#pragma once

// Control and user-defined tokens: found in the text before anything else happens to it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::text {

/// A trie over their texts. Immutable; any thread may search.
class AddedTokens {
 public:
  /// Longer ones are refused: a search looks at most this far ahead of each byte.
  static constexpr std::size_t kLongestBytes = 1024;

  struct Match {
    std::size_t begin = 0;  ///< Bytes of the text, white space that belongs to the token included.
    std::size_t end = 0;
    std::int32_t id = -1;
  };

  /// INVALID_ARGUMENT naming the token that is too long or not UTF-8. Empty ones never match.
  static Result<AddedTokens> create(const TokenizerSpec& spec);

  /// The first match at or after `from`, the longest of those that begin at the same byte. Control tokens match only with
  /// `parse_special`; without it their text is passed over as a whole, as in Hugging Face `tokenizers` (`encode_special_tokens`).
  std::optional<Match> find(std::string_view text, std::size_t from, bool parse_special) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::int32_t>> next;  ///< Sorted by byte.
    std::int32_t id = -1;                             ///< The token that ends here.
  };
  struct Flags {
    bool control = false;
    bool strip_left = false;
    bool strip_right = false;
  };

  void insert(std::string_view text, std::int32_t id);
  std::int32_t child(std::int32_t node, char byte) const;
  /// The longest token that `text` has at `at`: id (−1 = none) and length.
  std::pair<std::int32_t, std::size_t> longest_at(std::string_view text, std::size_t at) const;

  std::vector<Node> nodes_{1};
  std::vector<bool> starts_ = std::vector<bool>(256);  ///< By first byte: whether any token begins so.
  std::vector<std::pair<std::int32_t, Flags>> flags_;  ///< Sorted by id.
};

}  // namespace lynx::text
