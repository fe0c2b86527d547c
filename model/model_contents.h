#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/llama_tensors.h"
#include "model/mapped_file.h"
#include "model/model_config.h"
#include "text/tokenizer_spec.h"

namespace lynx::model {

/// Everything a model on disk holds, checked. `tensors` borrows from the mappings in `files`, or from the bytes that were parsed.
struct ModelContents {
  std::vector<MappedFile> files;
  ModelConfig config;
  LlamaTensors tensors;
  text::TokenizerSpec tokenizer;
  std::optional<std::string> chat_template;
};

}  // namespace lynx::model
