#pragma once

// What two nodes must have in common before one may use the other's KV cache.

#include <string>

#include "model/model_file.h"

namespace lynx::model {

/// Hashes (XXH3, 128 bits, hexadecimal). They name content, and prove nothing against somebody who forges it.
struct ModelIdentity {
  std::string
      weights;  ///< Of the shape and settings that change a logit, and of every tensor's type and bytes as the file has them.
  std::string tokenizer;  ///< Of everything that changes a token id or its text.
};

/// Reads all tensors once. Any thread.
ModelIdentity identify(const ModelFile& file);

}  // namespace lynx::model
