#pragma once

// The tokenizer that GGUF metadata describes. Independent of the model's architecture; works on vocabulary-only files too.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/gguf.h"
#include "text/tokenizer_spec.h"

namespace lynx::model {

/// Only byte-level BPE (tokenizer.ggml.model "gpt2") with a known pre-tokenizer; others are UNIMPLEMENTED by name.
Result<text::TokenizerSpec> gguf_tokenizer(const GgufFile& file);

/// The ids of eos, eot and eom that the file declares; −1 for those it does not. Ids outside `vocabulary` are INVALID_ARGUMENT.
Result<std::vector<std::int32_t>> gguf_end_tokens(const GgufFile& file, int vocabulary);

/// The default chat template; nullopt when there is none.
Result<std::optional<std::string>> gguf_chat_template(const GgufFile& file);

}  // namespace lynx::model
