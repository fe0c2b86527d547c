#include "model/model_config.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace lynx::model {
namespace {

Status check_range(std::string_view what, int value, int low, int high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("{} is {}, expected {} to {}", what, value, low, high));
}

Status check_positive(std::string_view what, float value, float high) {
  if (std::isfinite(value) && value > 0.0F && value <= high) return {};
  return invalid_argument(fmt::format("{} is {}, expected a number in (0, {}]", what, value, high));
}

Status validate_rope(const ModelConfig& config) {
  LYNX_RETURN_IF_ERROR(check_positive("the RoPE base frequency", config.rope_theta, 1e12F));
  const RopeScaling& scaling = config.rope_scaling;
  LYNX_RETURN_IF_ERROR(check_positive("the RoPE scaling factor", scaling.factor, 1e6F));
  if (scaling.type == RopeScaling::Type::kLlama3) {
    LYNX_RETURN_IF_ERROR(check_positive("the RoPE low frequency factor", scaling.low_freq_factor, 1e6F));
    LYNX_RETURN_IF_ERROR(check_positive("the RoPE high frequency factor", scaling.high_freq_factor, 1e6F));
    LYNX_RETURN_IF_ERROR(check_range("the RoPE original context", scaling.original_context, 1, 1 << 24));
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      return invalid_argument("the RoPE high frequency factor is not above the low one");
    }
  }
  for (const float factor : scaling.factors) {
    LYNX_RETURN_IF_ERROR(check_positive("a RoPE frequency factor", factor, 1e6F));
  }
  if (!scaling.factors.empty() && scaling.factors.size() != static_cast<std::size_t>(config.head_dim) / 2) {
    return invalid_argument(fmt::format("{} RoPE frequency factors for heads of {}", scaling.factors.size(), config.head_dim));
  }
  return {};
}

}  // namespace

Status validate(const ModelConfig& config) {
  LYNX_RETURN_IF_ERROR(check_range("the number of layers", config.layers, 1, 4096));
  LYNX_RETURN_IF_ERROR(check_range("the hidden size", config.hidden, 1, 1 << 20));
  LYNX_RETURN_IF_ERROR(check_range("the number of attention heads", config.heads, 1, 1 << 14));
  LYNX_RETURN_IF_ERROR(check_range("the number of KV heads", config.kv_heads, 1, config.heads));
  LYNX_RETURN_IF_ERROR(check_range("the head size", config.head_dim, 2, 4096));
  LYNX_RETURN_IF_ERROR(check_range("the feed-forward size", config.ffn, 1, 1 << 22));
  LYNX_RETURN_IF_ERROR(check_range("the vocabulary size", config.vocabulary, 1, 1 << 22));
  LYNX_RETURN_IF_ERROR(check_range("the context length", config.context, 1, 1 << 24));
  LYNX_RETURN_IF_ERROR(check_positive("the norm's epsilon", config.norm_epsilon, 1.0F));
  if (config.heads % config.kv_heads != 0) {
    return invalid_argument(
        fmt::format("{} attention heads cannot be shared evenly by {} KV heads", config.heads, config.kv_heads));
  }
  if (config.head_dim % 2 != 0) return invalid_argument(fmt::format("the head size {} is odd; RoPE needs pairs", config.head_dim));
  for (const std::int32_t token : config.end_tokens) {
    LYNX_RETURN_IF_ERROR(check_range("an end token", token, 0, config.vocabulary - 1));
  }
  return validate_rope(config);
}

}  // namespace lynx::model
