#include "model/hf_config.h"

#include <string>

#include <fmt/format.h>

#include "model/hf_json.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;

Status check_architecture(const json& root) {
  std::string type;
  LYNX_RETURN_IF_ERROR(require_member(root, "model_type", &type));
  if (type != "llama") return unimplemented(fmt::format("model type {} is not supported (only 'llama' is)", quote(type)));
  if (const json* names = find_member(root, "architectures")) {
    if (!names->is_array()) return invalid_argument("'architectures': expected a list");
    for (const json& name : *names) {
      if (!name.is_string()) return invalid_argument("'architectures': expected a list of strings");
      const auto& text = name.get_ref<const std::string&>();
      if (text != "LlamaForCausalLM") return unimplemented(fmt::format("architecture {} is not supported", quote(text)));
    }
  }
  return {};
}

Status refuse_variants(const json& root) {
  std::string activation = "silu";
  LYNX_RETURN_IF_ERROR(read_member(root, "hidden_act", &activation));
  if (activation != "silu") return unimplemented(fmt::format("activation {} is not supported", quote(activation)));
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    bool bias = false;
    LYNX_RETURN_IF_ERROR(read_member(root, key, &bias));
    if (bias) return unimplemented(fmt::format("'{}' is true: biases are not supported", key));
  }
  if (const json* quantization = find_member(root, "quantization_config")) {
    std::string method = "unknown";
    LYNX_RETURN_IF_ERROR(read_member(*quantization, "quant_method", &method));
    return unimplemented(fmt::format("quantization method {} is not supported", quote(method)));
  }
  return {};
}

Status read_shape(const json& root, ModelConfig& config) {
  LYNX_RETURN_IF_ERROR(require_member(root, "num_hidden_layers", &config.layers));
  LYNX_RETURN_IF_ERROR(require_member(root, "hidden_size", &config.hidden));
  LYNX_RETURN_IF_ERROR(require_member(root, "num_attention_heads", &config.heads));
  LYNX_RETURN_IF_ERROR(require_member(root, "intermediate_size", &config.ffn));
  LYNX_RETURN_IF_ERROR(require_member(root, "vocab_size", &config.vocabulary));
  config.kv_heads = config.heads;
  LYNX_RETURN_IF_ERROR(read_member(root, "num_key_value_heads", &config.kv_heads));
  config.context = 2048;
  LYNX_RETURN_IF_ERROR(read_member(root, "max_position_embeddings", &config.context));
  config.norm_epsilon = 1e-6F;
  LYNX_RETURN_IF_ERROR(read_member(root, "rms_norm_eps", &config.norm_epsilon));
  LYNX_RETURN_IF_ERROR(read_member(root, "tie_word_embeddings", &config.tied_head));
  if (find_member(root, "head_dim") != nullptr) return read_member(root, "head_dim", &config.head_dim);
  if (config.heads > 0 && config.hidden % config.heads == 0) {
    config.head_dim = config.hidden / config.heads;
    return {};
  }
  return invalid_argument(fmt::format("'hidden_size' {} is not a multiple of {} heads", config.hidden, config.heads));
}

/// `transformers` 5 writes "rope_parameters", with the base frequency inside; before, it was "rope_scaling" beside "rope_theta".
Status read_rope(const json& root, ModelConfig& config) {
  config.rope_style = RopeStyle::kHalf;
  LYNX_RETURN_IF_ERROR(read_member(root, "rope_theta", &config.rope_theta));
  float rotated = 1.0F;
  LYNX_RETURN_IF_ERROR(read_member(root, "partial_rotary_factor", &rotated));
  const json* rope = find_member(root, "rope_parameters");
  if (rope == nullptr) rope = find_member(root, "rope_scaling");
  std::string type = "default";
  if (rope != nullptr) {
    if (!rope->is_object()) return invalid_argument("'rope_scaling': expected an object");
    LYNX_RETURN_IF_ERROR(read_member(*rope, "rope_theta", &config.rope_theta));
    LYNX_RETURN_IF_ERROR(read_member(*rope, "partial_rotary_factor", &rotated));
    LYNX_RETURN_IF_ERROR(read_member(*rope, "type", &type));  // The older name.
    LYNX_RETURN_IF_ERROR(read_member(*rope, "rope_type", &type));
  }
  if (rotated != 1.0F) return unimplemented(fmt::format("'partial_rotary_factor' {} is not supported", rotated));
  if (type == "default") return {};
  RopeScaling& scaling = config.rope_scaling;
  LYNX_RETURN_IF_ERROR(require_member(*rope, "factor", &scaling.factor));
  if (type == "linear") {
    scaling.type = RopeScaling::Type::kLinear;
    return {};
  }
  if (type != "llama3") return unimplemented(fmt::format("RoPE scaling type {} is not supported", quote(type)));
  scaling.type = RopeScaling::Type::kLlama3;
  LYNX_RETURN_IF_ERROR(require_member(*rope, "low_freq_factor", &scaling.low_freq_factor));
  LYNX_RETURN_IF_ERROR(require_member(*rope, "high_freq_factor", &scaling.high_freq_factor));
  return require_member(*rope, "original_max_position_embeddings", &scaling.original_context);
}

}  // namespace

Result<std::vector<std::int32_t>> parse_eos_ids(const json& root) {
  std::vector<std::int32_t> ids;
  const json* member = find_member(root, "eos_token_id");
  if (member == nullptr) return ids;
  const auto add = [&ids](const json& value) {
    const auto id = as_int(value);
    if (id) ids.push_back(*id);
    return id.has_value();
  };
  bool all = true;
  if (member->is_array()) {
    for (const json& value : *member) all = add(value) && all;
  } else {
    all = add(*member);
  }
  if (!all) return invalid_argument("'eos_token_id': expected an integer or a list of integers");
  return ids;
}

Result<HfConfig> parse_hf_config(const json& root) {
  if (!root.is_object()) return invalid_argument("expected an object");
  LYNX_RETURN_IF_ERROR(check_architecture(root));
  LYNX_RETURN_IF_ERROR(refuse_variants(root));
  HfConfig result;
  LYNX_RETURN_IF_ERROR(read_shape(root, result.config));
  LYNX_RETURN_IF_ERROR(read_rope(root, result.config));
  LYNX_RETURN_IF_ERROR(validate(result.config));
  LYNX_TRY(result.eos, parse_eos_ids(root));
  LYNX_RETURN_IF_ERROR(read_member(root, "bos_token_id", &result.bos));
  return result;
}

}  // namespace lynx::model
