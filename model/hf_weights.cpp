#include "model/hf_weights.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "model/hf_json.h"
#include "model/safetensors.h"
#include "model/untrusted_text.h"

namespace lynx::model {

const LlamaTensorNames kHfTensorNames{.embedding = "model.embed_tokens.weight",
                                      .final_norm = "model.norm.weight",
                                      .head = "lm_head.weight",
                                      .layer_prefix = "model.layers.",
                                      .attention_norm = "input_layernorm.weight",
                                      .q = "self_attn.q_proj.weight",
                                      .k = "self_attn.k_proj.weight",
                                      .v = "self_attn.v_proj.weight",
                                      .o = "self_attn.o_proj.weight",
                                      .ffn_norm = "post_attention_layernorm.weight",
                                      .gate = "mlp.gate_proj.weight",
                                      .up = "mlp.up_proj.weight",
                                      .down = "mlp.down_proj.weight"};

namespace {

using nlohmann::json;

constexpr std::size_t kMostIndexBytes = 16U << 20;
constexpr std::size_t kMostShards = 1024;

Status add_file(MappedFile file, HfWeights& weights) {
  if (Status status = add_safetensors(file.bytes(), weights.table); !status.ok()) return status.with_context(file.path());
  weights.files.push_back(std::move(file));
  return {};
}

Result<std::set<std::string>> shard_names(const json& weight_map) {
  std::set<std::string> names;
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (!shard.is_string()) return invalid_argument(fmt::format("'weight_map': the file of {} is not a string", quote(tensor)));
    const auto& name = shard.get_ref<const std::string&>();
    LYNX_RETURN_IF_ERROR(check_shard_name(name));
    names.insert(name);
    if (names.size() > kMostShards) return invalid_argument(fmt::format("'weight_map': more than {} files", kMostShards));
  }
  return names;
}

Status add_shards(const std::string& directory, const json& index, HfWeights& weights) {
  const std::string path = directory + "/model.safetensors.index.json";
  const json* weight_map = find_member(index, "weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) return invalid_argument(path + ": 'weight_map': expected an object");
  const auto names = shard_names(*weight_map);
  if (!names.ok()) return names.status().with_context(path);
  for (const std::string& name : *names) {
    LYNX_TRY(MappedFile file, MappedFile::open(fmt::format("{}/{}", directory, name)));
    LYNX_RETURN_IF_ERROR(add_file(std::move(file), weights));
  }
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!weights.table.contains(tensor)) {
      return invalid_argument(
          fmt::format("{}: tensor {}: not in file {}", path, quote(tensor), quote(shard.get_ref<const std::string&>())));
    }
  }
  return {};
}

}  // namespace

Status check_shard_name(std::string_view name) {
  constexpr std::string_view kEnd = ".safetensors";
  const bool plain = name.size() > kEnd.size() && name.size() < 256 && name.front() != '.' &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos &&
                     name.substr(name.size() - kEnd.size()) == kEnd;
  if (plain) return {};
  return invalid_argument(fmt::format("'weight_map': {} is not a plain name of a .safetensors file", quote(name)));
}

Result<HfWeights> open_hf_weights(const std::string& directory) {
  HfWeights weights;
  auto single = MappedFile::open(directory + "/model.safetensors");
  if (single.ok()) {
    LYNX_RETURN_IF_ERROR(add_file(std::move(single).value(), weights));
    return weights;
  }
  if (single.status().code() != Code::kNotFound) return single.status();
  LYNX_TRY(const auto index, read_json_file(directory, "model.safetensors.index.json", kMostIndexBytes));
  if (!index) {
    return not_found(directory +
                     ": neither model.safetensors nor model.safetensors.index.json is there (other weight formats are not read)");
  }
  LYNX_RETURN_IF_ERROR(add_shards(directory, *index, weights));
  return weights;
}

}  // namespace lynx::model
