#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/status.h"
#include "model/model_config.h"

namespace lynx::model {

/// What config.json says. End tokens and name of `config` are left empty.
struct HfConfig {
  ModelConfig config;
  std::vector<std::int32_t> eos;  ///< "eos_token_id", one or several.
  std::int32_t bos = -1;
};

/// Reads config.json of a LlamaForCausalLM, with the defaults that `transformers` has for absent keys. Other model types,
/// activations, quantizations and RoPE scalings, and biases, are UNIMPLEMENTED by name. The shape is validated.
Result<HfConfig> parse_hf_config(const nlohmann::json& root);

/// "eos_token_id" of config.json or generation_config.json: absent, an integer, or a list of them.
Result<std::vector<std::int32_t>> parse_eos_ids(const nlohmann::json& root);

}  // namespace lynx::model
