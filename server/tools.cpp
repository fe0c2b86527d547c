#include "server/tools.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "common/units.h"
#include "kv/block_pool.h"
#include "model/model_file.h"
#include "server/openai_prompt.h"

namespace lynx::server {
namespace {

constexpr std::int64_t kBf16Bytes = 2;

/// Tensors and bytes on disk, by type.
class WeightCensus {
 public:
  void add(const matmul::WeightSource& tensor) {
    auto& [count, bytes] = types_[std::string(quant::weight_type_name(tensor.type))];
    ++count;
    const auto values = static_cast<std::int64_t>(tensor.rows) * tensor.cols;
    values_ += values;
    bytes += values / quant::block_values(tensor.type) * static_cast<std::int64_t>(quant::block_bytes(tensor.type));
  }
  std::string to_string() const {
    std::string out = fmt::format("{:<18}{}\n", "parameters", values_);
    for (const auto& [name, entry] : types_) {
      out += fmt::format("{:<18}{} {} tensors, {}\n", "weights", entry.first, name, format_bytes(entry.second));
    }
    return out;
  }

 private:
  std::map<std::string, std::pair<int, std::int64_t>> types_;
  std::int64_t values_ = 0;
};

WeightCensus count_weights(const model::ModelFile& file) {
  WeightCensus census;
  census.add(file.embedding());
  census.add(file.final_norm());
  if (!file.config().tied_head) census.add(file.head());
  for (int i = 0; i < file.config().layers; ++i) {
    const model::LayerTensors layer = file.layer(i);
    for (const auto& tensor :
         {layer.attention_norm, layer.q, layer.k, layer.v, layer.o, layer.ffn_norm, layer.gate, layer.up, layer.down}) {
      census.add(tensor);
    }
  }
  return census;
}

Result<std::pair<std::unique_ptr<model::ModelFile>, text::Tokenizer>> open_with_tokenizer(const std::string& model) {
  LYNX_TRY(auto file, model::ModelFile::open(model));
  auto tokenizer = text::Tokenizer::create(file->tokenizer());
  if (!tokenizer.ok()) return tokenizer.status().with_context(model + ": tokenizer");
  return std::pair{std::move(file), std::move(tokenizer).value()};
}

}  // namespace

Result<std::string> inspect_model(const std::string& model) {
  LYNX_TRY(auto file, model::ModelFile::open(model));
  const model::ModelConfig& config = file->config();
  const std::int64_t kv_bytes = kBf16Bytes * 2 * config.layers * config.kv_heads * config.head_dim;
  std::string out;
  const auto line = [&](std::string_view name, const auto& value) { out += fmt::format("{:<18}{}\n", name, value); };
  line("name", config.name);
  line("layers", config.layers);
  line("hidden", config.hidden);
  line("heads", fmt::format("{} of {}, {} for keys and values", config.heads, config.head_dim, config.kv_heads));
  line("ffn", config.ffn);
  line("vocabulary", config.vocabulary);
  line("context", config.context);
  line("output head", config.tied_head ? "the embedding" : "its own");
  line("chat template", file->chat_template() ? "yes" : "no");
  out += count_weights(*file).to_string();
  line("KV cache",
       fmt::format("{} a token, {} for the whole context", format_bytes(kv_bytes), format_bytes(kv_bytes * config.context)));
  return out;
}

Result<std::string> tokenize_text(const std::string& model, std::string_view text) {
  LYNX_TRY(const auto opened, open_with_tokenizer(model));
  const text::Tokenizer& tokenizer = opened.second;
  LYNX_TRY(const auto ids, tokenizer.encode(text, true));
  std::string out;
  for (const std::int32_t id : ids) out += fmt::format("{}\t{}\n", id, dump_json(Json(std::string(tokenizer.token_bytes(id)))));
  return out;
}

Result<std::string> render_messages(const std::string& model, std::string_view messages) {
  LYNX_TRY(const auto opened, open_with_tokenizer(model));
  const auto source = opened.first->chat_template();
  if (!source) return not_found(model + ": the model has no chat template");
  auto parsed = text::ChatTemplate::parse(*source);
  if (!parsed.ok()) return parsed.status().with_context(model + ": chat template");
  auto body = parse_json_object(fmt::format("{{\"messages\":{}}}", messages));
  if (!body.ok()) return invalid_argument(body.error().message);
  const auto prompt = parse_chat_prompt(body.value());
  if (!prompt.ok()) return invalid_argument(prompt.error().message);
  auto encoded = encode_chat(prompt.value(), {&opened.second, &parsed.value()});
  if (!encoded.ok()) return invalid_argument(encoded.error().message);
  return encoded->text + "\n";
}

}  // namespace lynx::server
