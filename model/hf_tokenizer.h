#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::model {

/// Reads tokenizer.json: byte-level BPE with a known pre-tokenizer; anything else is UNIMPLEMENTED by name. Token ids must be below
/// `vocabulary` (the embedding's rows); ids without a token become unused ones. `bos` is the token that the post-processor puts
/// first, with `add_bos`; the other special ids are left at −1: tokenizer_config.json names them.
Result<text::TokenizerSpec> parse_hf_tokenizer(const nlohmann::json& root, int vocabulary);

/// Applies tokenizer_config.json: names of bos, eos, pad and unk (which become control tokens, as in `transformers`), further added
/// tokens, and add_bos_token, which wins over the post-processor.
Status apply_tokenizer_config(const nlohmann::json& root, text::TokenizerSpec& spec);

/// The chat template in tokenizer_config.json: a string, or the one called "default" in a list. nullopt when there is none.
Result<std::optional<std::string>> parse_chat_template(const nlohmann::json& root);

}  // namespace lynx::model
