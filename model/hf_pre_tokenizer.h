#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::model {

/// The parts of tokenizer.json around the BPE model. Each recognises the forms that the supported tokenizers use, and answers
/// UNIMPLEMENTED, naming the form, for any other: a step that is left out would silently give other tokens.

Result<text::Normalizer> recognise_normalizer(const nlohmann::json& root);
Result<text::PreTokenizer> recognise_pre_tokenizer(const nlohmann::json& root);
Status check_decoder(const nlohmann::json& root);

/// The token that the post-processor puts before a single text; nullopt for none.
Result<std::optional<std::int32_t>> recognise_prefix(const nlohmann::json& root);

}  // namespace lynx::model
