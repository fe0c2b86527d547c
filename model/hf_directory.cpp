#include "model/hf_directory.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"
#include "model/end_tokens.h"
#include "model/hf_config.h"
#include "model/hf_json.h"
#include "model/hf_tokenizer.h"
#include "model/hf_weights.h"
#include "text/utf8.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr std::size_t kMostConfigBytes = 4U << 20;
constexpr std::size_t kMostTokenizerBytes = 64U << 20;  // Llama 3's has 17 MiB.
constexpr std::size_t kMostTemplateBytes = 1U << 20;

/// A file of the directory, and how its path is put before the errors of what reads it.
struct Directory {
  std::string path;

  Result<std::optional<json>> read(std::string_view name, std::size_t most_bytes) const {
    return read_json_file(path, name, most_bytes);
  }
  Status blame(std::string_view name, const Status& status) const { return status.with_context(fmt::format("{}/{}", path, name)); }
};

/// The directory's own name: what people call the model.
std::string display_name(const std::string& path) {
  const auto normal = std::filesystem::path(path).lexically_normal();
  const std::string name = normal.has_filename() ? normal.filename().string() : normal.parent_path().filename().string();
  return text::find_invalid_utf8(name) ? std::string{} : name;
}

Result<std::optional<std::string>> read_template(const Directory& directory, const std::optional<json>& tokenizer_config) {
  // As in `transformers`, the file of its own wins.
  const std::string path = directory.path + "/chat_template.jinja";
  auto file = MappedFile::open(path);
  if (file.ok()) {
    if (file->bytes().size() > kMostTemplateBytes) {
      return invalid_argument(fmt::format("{}: more than {}", path, format_bytes(kMostTemplateBytes)));
    }
    if (text::find_invalid_utf8(file->text())) return invalid_argument(path + ": not valid UTF-8");
    return std::optional{std::string(file->text())};
  }
  if (file.status().code() != Code::kNotFound) return file.status();
  if (!tokenizer_config) return std::optional<std::string>{};
  auto source = parse_chat_template(*tokenizer_config);
  if (!source.ok()) return directory.blame("tokenizer_config.json", source.status());
  return source;
}

Result<text::TokenizerSpec> read_tokenizer(const Directory& directory, const HfConfig& config,
                                           const std::optional<json>& tokenizer_config) {
  LYNX_TRY(const auto root, directory.read("tokenizer.json", kMostTokenizerBytes));
  if (!root) {
    if (std::filesystem::exists(directory.path + "/tokenizer.model")) {
      return unimplemented(directory.path + "/tokenizer.model: SentencePiece is not supported; a tokenizer.json is needed");
    }
    return not_found(directory.path + "/tokenizer.json: no such file");
  }
  auto spec = parse_hf_tokenizer(*root, config.config.vocabulary);
  if (!spec.ok()) return directory.blame("tokenizer.json", spec.status());
  if (tokenizer_config) {
    if (Status status = apply_tokenizer_config(*tokenizer_config, *spec); !status.ok()) {
      return directory.blame("tokenizer_config.json", status);
    }
  }
  const auto inside = [&](std::int32_t id) { return id >= 0 && id < config.config.vocabulary; };
  if (spec->bos < 0 && inside(config.bos)) spec->bos = config.bos;
  if (spec->eos < 0 && !config.eos.empty() && inside(config.eos.front())) spec->eos = config.eos.front();
  return spec;
}

/// Old checkpoints store a buffer that follows from rope_theta.
void ignore_derived_tensors(const ModelConfig& config, TensorTable& table) {
  for (int layer = 0; layer < config.layers; ++layer) {
    table.ignore(fmt::format("model.layers.{}.self_attn.rotary_emb.inv_freq", layer));
  }
}

Result<HfConfig> read_config(const Directory& directory) {
  LYNX_TRY(const auto root, directory.read("config.json", kMostConfigBytes));
  if (!root) {
    return not_found(directory.path + "/config.json: no such file (a GGUF model is named by its file, not by its directory)");
  }
  auto config = parse_hf_config(*root);
  if (!config.ok()) return directory.blame("config.json", config.status());
  LYNX_TRY(const auto generation, directory.read("generation_config.json", kMostConfigBytes));
  if (generation) {
    const auto ids = parse_eos_ids(*generation);
    if (!ids.ok()) return directory.blame("generation_config.json", ids.status());
    config->eos.insert(config->eos.end(), ids->begin(), ids->end());
  }
  for (const std::int32_t id : config->eos) {
    if (id >= config->config.vocabulary) {
      return directory.blame("config.json", invalid_argument(fmt::format("'eos_token_id': {} is outside the vocabulary", id)));
    }
  }
  return config;
}

}  // namespace

Result<ModelContents> open_hf_directory(const std::string& path) {
  const Directory directory{path};
  LYNX_TRY(HfConfig config, read_config(directory));
  LYNX_TRY(HfWeights weights, open_hf_weights(path));
  ignore_derived_tensors(config.config, weights.table);
  ModelContents contents;
  auto tensors = bind_llama_tensors(config.config, kHfTensorNames, weights.table);
  if (!tensors.ok()) return tensors.status().with_context(path);
  contents.tensors = std::move(*tensors);
  LYNX_TRY(const auto tokenizer_config, directory.read("tokenizer_config.json", kMostConfigBytes));
  LYNX_TRY(contents.tokenizer, read_tokenizer(directory, config, tokenizer_config));
  LYNX_TRY(contents.chat_template, read_template(directory, tokenizer_config));
  contents.config = std::move(config.config);
  contents.config.name = display_name(path);
  contents.config.end_tokens = collect_end_tokens(contents.tokenizer, config.eos);
  contents.files = std::move(weights.files);
  return contents;
}

}  // namespace lynx::model
