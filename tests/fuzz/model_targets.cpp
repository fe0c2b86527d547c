#include "tests/fuzz/model_targets.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "model/gguf_model.h"
#include "model/hf_config.h"
#include "model/hf_json.h"
#include "model/hf_tokenizer.h"
#include "model/plane_profile_file.h"
#include "model/safetensors.h"
#include "text/utf8.h"

namespace lynx::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Decodes every row: under a sanitizer, one byte too far is seen; without one, the place is checked.
std::string check_tensor(const matmul::WeightSource& source, Bytes bytes) {
  const auto cols = static_cast<std::size_t>(source.cols);
  const std::size_t blocks = cols / static_cast<std::size_t>(quant::block_values(source.type));
  const std::size_t row_bytes = blocks * quant::block_bytes(source.type);
  const std::size_t total = row_bytes * static_cast<std::size_t>(source.rows);
  if (source.data < bytes.data() || source.data + total > bytes.data() + bytes.size()) return "a tensor lies outside the file";
  std::vector<float> row(cols);
  for (int r = 0; r < source.rows; ++r) {
    quant::dequantize(source.type, source.data + static_cast<std::size_t>(r) * row_bytes, cols, row.data());
  }
  return {};
}

std::string check_tokenizer(const text::TokenizerSpec& spec) {
  const auto size = static_cast<std::int32_t>(spec.tokens.size());
  for (const std::int32_t id : {spec.bos, spec.eos, spec.pad, spec.unknown}) {
    if (id < -1 || id >= size) return "a special token outside the vocabulary";
  }
  if (spec.add_bos && spec.bos < 0) return "add_bos without a bos";
  for (const auto& token : spec.tokens) {
    if (text::find_invalid_utf8(token.text)) return "a token that is no UTF-8";
  }
  for (const auto& [left, right] : spec.merges) {
    if (left.empty() || right.empty()) return "a merge of nothing";
  }
  return {};
}

std::string check_contents(const model::ModelContents& contents, Bytes bytes) {
  if (!model::validate(contents.config).ok()) return "an accepted config is not valid";
  if (contents.tensors.layers.size() != static_cast<std::size_t>(contents.config.layers)) return "layers are missing";
  std::vector<matmul::WeightSource> all{contents.tensors.embedding, contents.tensors.final_norm, contents.tensors.head};
  for (const model::LayerTensors& layer : contents.tensors.layers) {
    all.insert(all.end(),
               {layer.attention_norm, layer.q, layer.k, layer.v, layer.o, layer.ffn_norm, layer.gate, layer.up, layer.down});
  }
  for (const auto& source : all) {
    if (std::string wrong = check_tensor(source, bytes); !wrong.empty()) return wrong;
  }
  if (contents.tensors.embedding.rows != static_cast<int>(contents.tokenizer.tokens.size())) return "tokens without an embedding";
  if (contents.chat_template && text::find_invalid_utf8(*contents.chat_template)) return "a template that is no UTF-8";
  return check_tokenizer(contents.tokenizer);
}

}  // namespace

std::string try_gguf(Bytes bytes) {
  const auto contents = model::parse_gguf_model(bytes);
  if (!contents.ok()) return contents.status().message().empty() ? "a refusal without a reason" : "";
  return check_contents(*contents, bytes);
}

std::string try_safetensors(Bytes bytes) {
  model::TensorTable table;
  if (!model::add_safetensors(bytes, table).ok()) return {};
  // Reach the data of every tensor that has a shape to ask for.
  for (const std::string& name : table.unused()) {
    for (const auto& [rows, cols] : {std::pair{32, 32}, {64, 32}, {32, 64}, {16, 32}, {304, 32}}) {
      const auto matrix = table.take_matrix(name, rows, cols);
      if (!matrix.ok()) continue;
      if (std::string wrong = check_tensor(*matrix, bytes); !wrong.empty()) return wrong;
    }
    const auto vector = table.take_vector(name, 32);
    if (!vector.ok()) continue;
    if (std::string wrong = check_tensor(*vector, bytes); !wrong.empty()) return wrong;
  }
  return {};
}

std::string try_hf_config(Bytes bytes) {
  const auto root = model::parse_json(text_of(bytes));
  if (!root.ok()) return {};
  const auto config = model::parse_hf_config(*root);
  if (!config.ok()) return config.status().message().empty() ? "a refusal without a reason" : "";
  return model::validate(config->config).ok() ? "" : "an accepted config is not valid";
}

std::string try_hf_tokenizer(Bytes bytes) {
  constexpr int kVocabulary = 304;
  const auto root = model::parse_json(text_of(bytes));
  if (!root.ok()) return {};
  text::TokenizerSpec spec;
  if (auto parsed = model::parse_hf_tokenizer(*root, kVocabulary); parsed.ok()) {
    spec = std::move(*parsed);
    if (spec.tokens.size() != kVocabulary) return "a vocabulary of another size";
    if (std::string wrong = check_tokenizer(spec); !wrong.empty()) return wrong;
  }
  spec.tokens.resize(kVocabulary);
  if (!model::apply_tokenizer_config(*root, spec).ok()) return {};
  if (std::string wrong = check_tokenizer(spec); !wrong.empty()) return wrong;
  const auto source = model::parse_chat_template(*root);
  return source.ok() && source->has_value() && text::find_invalid_utf8(**source) ? "a template that is no UTF-8" : "";
}

std::string try_plane_profile(Bytes bytes) {
  const auto file = model::parse_plane_profile(text_of(bytes));
  if (!file.ok()) return file.status().message().empty() ? "a refusal without a reason" : "";
  const std::size_t listed = file->profile.wide_k.size();
  if (listed != 0 && listed != static_cast<std::size_t>(file->layers)) return "a list of another length than the layers";
  const auto again = model::parse_plane_profile(model::plane_profile_text(*file));
  if (!again.ok()) return "what was accepted is not when written again";
  return again->model == file->model && again->profile == file->profile ? "" : "what was written reads differently";
}

std::string try_json(Bytes bytes) {
  const auto root = model::parse_json(text_of(bytes));
  if (!root.ok()) return root.status().code() == Code::kInvalidArgument ? "" : "an unexpected code";
  int integer = 0;
  float number = 0;
  bool flag = false;
  std::string text;
  for (const char* key : {"a", "b"}) {
    const bool any = model::read_member(*root, key, &integer).ok() || model::read_member(*root, key, &number).ok() ||
                     model::read_member(*root, key, &flag).ok() || model::read_member(*root, key, &text).ok();
    if (!any && model::find_member(*root, key) == nullptr) return "an absent member was refused";
  }
  return {};
}

}  // namespace lynx::fuzz
