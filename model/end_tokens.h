#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer_spec.h"

namespace lynx::model {

/// Tokens that end a generation: the spec's eos, the ids that the file declares (negative ones are skipped), and control tokens
/// with a name that chat models end a turn with ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>"), except bos: a
/// file that names only one of them still stops where its users expect. Ascending, without duplicates; ids inside the vocabulary.
std::vector<std::int32_t> collect_end_tokens(const text::TokenizerSpec& spec, std::span<const std::int32_t> declared);

}  // namespace lynx::model
