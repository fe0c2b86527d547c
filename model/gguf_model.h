#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/status.h"
#include "model/model_contents.h"

namespace lynx::model {

/// Reads a GGUF file out of memory; the result borrows from `bytes` and holds no files.
Result<ModelContents> parse_gguf_model(std::span<const std::byte> bytes);

/// Maps and reads a .gguf file. Errors start with the path.
Result<ModelContents> open_gguf(const std::string& path);

}  // namespace lynx::model
