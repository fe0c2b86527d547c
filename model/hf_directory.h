#pragma once

#include <string>

#include "common/status.h"
#include "model/model_contents.h"

namespace lynx::model {

/// Maps and reads a Hugging Face directory: config.json, generation_config.json (optional), model.safetensors or its shards,
/// tokenizer.json, tokenizer_config.json (optional), chat_template.jinja (optional). Errors start with the path.
Result<ModelContents> open_hf_directory(const std::string& path);

}  // namespace lynx::model
