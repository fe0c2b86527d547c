#include "model/gguf_llama.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "model/untrusted_text.h"
#include "text/utf8.h"

namespace lynx::model {

const LlamaTensorNames kGgufTensorNames{.embedding = "token_embd.weight",
                                        .final_norm = "output_norm.weight",
                                        .head = "output.weight",
                                        .layer_prefix = "blk.",
                                        .attention_norm = "attn_norm.weight",
                                        .q = "attn_q.weight",
                                        .k = "attn_k.weight",
                                        .v = "attn_v.weight",
                                        .o = "attn_output.weight",
                                        .ffn_norm = "ffn_norm.weight",
                                        .gate = "ffn_gate.weight",
                                        .up = "ffn_up.weight",
                                        .down = "ffn_down.weight"};

namespace {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::optional<quant::WeightType> weight;
};

// All of ggml's types have a name here, so that a refusal can use it.
constexpr GgmlType kGgmlTypes[] = {{0, "F32", quant::WeightType::kF32},
                                   {1, "F16", quant::WeightType::kF16},
                                   {2, "Q4_0", quant::WeightType::kQ4_0},
                                   {3, "Q4_1", quant::WeightType::kQ4_1},
                                   {6, "Q5_0", quant::WeightType::kQ5_0},
                                   {7, "Q5_1", quant::WeightType::kQ5_1},
                                   {8, "Q8_0", quant::WeightType::kQ8_0},
                                   {9, "Q8_1", {}},
                                   {10, "Q2_K", {}},
                                   {11, "Q3_K", {}},
                                   {12, "Q4_K", quant::WeightType::kQ4_K},
                                   {13, "Q5_K", quant::WeightType::kQ5_K},
                                   {14, "Q6_K", quant::WeightType::kQ6_K},
                                   {15, "Q8_K", {}},
                                   {16, "IQ2_XXS", {}},
                                   {17, "IQ2_XS", {}},
                                   {18, "IQ3_XXS", {}},
                                   {19, "IQ1_S", {}},
                                   {20, "IQ4_NL", {}},
                                   {21, "IQ3_S", {}},
                                   {22, "IQ2_S", {}},
                                   {23, "IQ4_XS", {}},
                                   {24, "I8", {}},
                                   {25, "I16", {}},
                                   {26, "I32", {}},
                                   {27, "I64", {}},
                                   {28, "F64", {}},
                                   {29, "IQ1_M", {}},
                                   {30, "BF16", quant::WeightType::kBf16},
                                   {34, "TQ1_0", {}},
                                   {35, "TQ2_0", {}},
                                   {39, "MXFP4", {}}};

std::optional<GgmlType> ggml_type(std::uint32_t number) {
  const auto* found =
      std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes), [&](const GgmlType& type) { return type.number == number; });
  return found == std::end(kGgmlTypes) ? std::nullopt : std::optional{*found};
}

/// Bytes of a tensor whose type is read; INVALID_ARGUMENT when a row is not whole blocks.
Result<std::uint64_t> tensor_bytes(const GgufTensor& tensor, const GgmlType& type) {
  const auto block = static_cast<std::uint64_t>(quant::block_values(*type.weight));
  if (tensor.extents[0] % block != 0) {
    return invalid_argument(fmt::format("rows of {} values are not whole {} blocks", tensor.extents[0], type.name));
  }
  std::uint64_t values = 1;  // At most 2^48: the parser saw to it.
  for (int d = 0; d < tensor.dimensions; ++d) values *= tensor.extents[static_cast<std::size_t>(d)];
  return values / block * quant::block_bytes(*type.weight);
}

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
  std::string_view name;
};

Status check_overlaps(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return invalid_argument(fmt::format("tensor {}: overlaps tensor {}", quote(extents[i].name), quote(extents[i - 1].name)));
    }
  }
  return {};
}

Status refuse(std::string_view key, std::string_view value) {
  return unimplemented(fmt::format("metadata key '{}' is {}: not supported", key, value));
}

/// Keys that llama.cpp's converters write for relatives of llama, and that change the arithmetic.
Status refuse_variants(const GgufFile& file, const ModelConfig& config) {
  int experts = 0;
  LYNX_RETURN_IF_ERROR(file.read("llama.expert_count", &experts));
  if (experts > 1) return unimplemented(fmt::format("a mixture of {} experts is not supported", experts));
  int window = 0;
  LYNX_RETURN_IF_ERROR(file.read("llama.attention.sliding_window", &window));
  if (window > 0 && window < config.context) return refuse("llama.attention.sliding_window", std::to_string(window));
  bool causal = true;
  LYNX_RETURN_IF_ERROR(file.read("llama.attention.causal", &causal));
  if (!causal) return refuse("llama.attention.causal", "false");
  bool parallel = false;
  LYNX_RETURN_IF_ERROR(file.read("llama.use_parallel_residual", &parallel));
  if (parallel) return refuse("llama.use_parallel_residual", "true");
  for (const char* key : {"llama.attention.clamp_kqv", "llama.attention.max_alibi_bias", "llama.attention.scale",
                          "llama.attn_logit_softcapping", "llama.final_logit_softcapping"}) {
    float value = 0.0F;
    LYNX_RETURN_IF_ERROR(file.read(key, &value));
    if (value != 0.0F) return refuse(key, fmt::format("{}", value));
  }
  for (const char* key : {"llama.logit_scale", "llama.residual_scale", "llama.embedding_scale", "llama.rope.scaling.attn_factor"}) {
    float value = 1.0F;
    LYNX_RETURN_IF_ERROR(file.read(key, &value));
    if (value != 1.0F && value != 0.0F) return refuse(key, fmt::format("{}", value));
  }
  return {};
}

Status read_rope(const GgufFile& file, ModelConfig& config, TensorTable& table) {
  config.rope_style = RopeStyle::kInterleaved;
  LYNX_RETURN_IF_ERROR(file.read("llama.rope.freq_base", &config.rope_theta));
  int rotated = config.head_dim;
  LYNX_RETURN_IF_ERROR(file.read("llama.rope.dimension_count", &rotated));
  if (rotated != config.head_dim) {
    return unimplemented(fmt::format("RoPE on {} of {} dimensions of a head is not supported", rotated, config.head_dim));
  }
  std::string_view type = "none";
  LYNX_RETURN_IF_ERROR(file.read("llama.rope.scaling.type", &type));
  float factor = 1.0F;
  LYNX_RETURN_IF_ERROR(file.read("llama.rope.scale_linear", &factor));  // Written before scaling.type existed.
  if (factor != 1.0F && !file.has("llama.rope.scaling.type")) type = "linear";
  LYNX_RETURN_IF_ERROR(file.read("llama.rope.scaling.factor", &factor));
  if (type == "linear") {
    config.rope_scaling.type = RopeScaling::Type::kLinear;
    config.rope_scaling.factor = factor;
  } else if (type != "none") {
    return unimplemented(fmt::format("RoPE scaling type {} is not supported", quote(type)));
  }
  constexpr std::string_view kFactors = "rope_freqs.weight";
  if (!table.contains(kFactors)) return {};
  LYNX_TRY(const auto source, table.take_vector(kFactors, config.head_dim / 2));
  config.rope_scaling.factors.resize(static_cast<std::size_t>(source.cols));
  quant::dequantize(source.type, source.data, config.rope_scaling.factors.size(), config.rope_scaling.factors.data());
  return {};
}

Status read_shape(const GgufFile& file, int vocabulary, ModelConfig& config) {
  LYNX_RETURN_IF_ERROR(file.require("llama.block_count", &config.layers));
  LYNX_RETURN_IF_ERROR(file.require("llama.embedding_length", &config.hidden));
  LYNX_RETURN_IF_ERROR(file.require("llama.attention.head_count", &config.heads));
  config.kv_heads = config.heads;
  LYNX_RETURN_IF_ERROR(file.read("llama.attention.head_count_kv", &config.kv_heads));
  LYNX_RETURN_IF_ERROR(file.require("llama.feed_forward_length", &config.ffn));
  LYNX_RETURN_IF_ERROR(file.require("llama.context_length", &config.context));
  LYNX_RETURN_IF_ERROR(file.require("llama.attention.layer_norm_rms_epsilon", &config.norm_epsilon));
  config.vocabulary = vocabulary;
  int declared = vocabulary;
  LYNX_RETURN_IF_ERROR(file.read("llama.vocab_size", &declared));
  if (declared != vocabulary) {
    return invalid_argument(fmt::format("'llama.vocab_size' is {}, but there are {} tokens", declared, vocabulary));
  }
  if (config.heads > 0) config.head_dim = config.hidden / config.heads;
  if (!file.has("llama.attention.key_length") && config.heads > 0 && config.hidden % config.heads != 0) {
    return invalid_argument(fmt::format("hidden size {} is not a multiple of {} heads", config.hidden, config.heads));
  }
  LYNX_RETURN_IF_ERROR(file.read("llama.attention.key_length", &config.head_dim));
  int value_dim = config.head_dim;
  LYNX_RETURN_IF_ERROR(file.read("llama.attention.value_length", &value_dim));
  if (value_dim != config.head_dim) {
    return unimplemented(fmt::format("value heads of {} beside key heads of {} are not supported", value_dim, config.head_dim));
  }
  return {};
}

}  // namespace

Result<TensorTable> gguf_tensors(const GgufFile& file) {
  TensorTable table;
  std::vector<Extent> extents;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto type = ggml_type(tensor.type);
    FileTensor entry;
    entry.type_name = type ? std::string(type->name) : fmt::format("number {}", tensor.type);
    for (int d = tensor.dimensions - 1; d >= 0; --d) entry.shape.push_back(tensor.extents[static_cast<std::size_t>(d)]);
    if (type && type->weight) {
      const auto bytes = tensor_bytes(tensor, *type);
      if (!bytes.ok()) return bytes.status().with_context("tensor " + quote(tensor.name));
      if (tensor.offset > file.data().size() || *bytes > file.data().size() - tensor.offset) {
        return invalid_argument(fmt::format("tensor {}: {} bytes at offset {} reach beyond the {} bytes of data",
                                            quote(tensor.name), *bytes, tensor.offset, file.data().size()));
      }
      entry.type = type->weight;
      entry.data = file.data().data() + tensor.offset;
      extents.push_back({tensor.offset, tensor.offset + *bytes, tensor.name});
    }
    LYNX_RETURN_IF_ERROR(table.add(tensor.name, std::move(entry)));
  }
  LYNX_RETURN_IF_ERROR(check_overlaps(std::move(extents)));
  return table;
}

Result<ModelConfig> gguf_config(const GgufFile& file, int vocabulary, TensorTable& table) {
  ModelConfig config;
  std::string_view name;
  LYNX_RETURN_IF_ERROR(file.read("general.name", &name));
  if (text::find_invalid_utf8(name)) return invalid_argument("metadata key 'general.name': not valid UTF-8");
  config.name = name;
  LYNX_RETURN_IF_ERROR(read_shape(file, vocabulary, config));
  LYNX_RETURN_IF_ERROR(validate(config));
  LYNX_RETURN_IF_ERROR(read_rope(file, config, table));
  LYNX_RETURN_IF_ERROR(refuse_variants(file, config));
  LYNX_RETURN_IF_ERROR(validate(config));
  config.tied_head = !table.contains(kGgufTensorNames.head);
  return config;
}

}  // namespace lynx::model
