#pragma once

#include <string>

#include "common/status.h"
#include "text/tokenizer_spec.h"

namespace lynx::text::test {

/// Reads the tokenizer of a GGUF file, also of one without weights and of any architecture (which model/ refuses, rightly). For
/// files that are trusted: sizes are checked against the file's end and no further.
Result<TokenizerSpec> read_gguf_vocabulary(const std::string& path);

/// The default model, or the file that LYNX_TEST_MODEL names.
std::string default_model_path();

/// One of the vocabularies that scripts/fetch_test_vocabs.sh fetches: "gpt-2", "llama-bpe" or "qwen2".
std::string fetched_vocabulary_path(const std::string& name);

}  // namespace lynx::text::test
