#pragma once

// A text as people write them, in the tokens of the default model.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "tests/catch.h"
#include "text/tokenizer.h"

namespace lynx::model {

/// The first `count` tokens of the sample handbook.
inline std::vector<std::int32_t> real_tokens(const ModelFile& file, std::size_t count) {
  std::ifstream in("docs/sample/harbour_handbook.md");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto tokenizer = text::Tokenizer::create(file.tokenizer());
  REQUIRE(tokenizer.ok());
  auto tokens = tokenizer->encode(text, true);
  REQUIRE(tokens.ok());
  REQUIRE(tokens->size() >= count);
  tokens->resize(count);
  return *tokens;
}

}  // namespace lynx::model
