#include "model/end_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lynx::model {

std::vector<std::int32_t> collect_end_tokens(const text::TokenizerSpec& spec, std::span<const std::int32_t> declared) {
  constexpr std::array<std::string_view, 4> kWellKnown{"<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>"};
  const auto size = static_cast<std::int32_t>(spec.tokens.size());
  std::vector<std::int32_t> ends(declared.begin(), declared.end());
  ends.push_back(spec.eos);
  for (std::int32_t id = 0; id < size; ++id) {
    const auto& token = spec.tokens[static_cast<std::size_t>(id)];
    const bool named = std::find(kWellKnown.begin(), kWellKnown.end(), token.text) != kWellKnown.end();
    if (named && token.kind == text::TokenizerSpec::TokenKind::kControl && id != spec.bos) ends.push_back(id);
  }
  std::erase_if(ends, [size](std::int32_t id) { return id < 0 || id >= size; });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace lynx::model
