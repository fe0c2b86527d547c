#include "model/gguf_model.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "common/log.h"
#include "model/end_tokens.h"
#include "model/gguf.h"
#include "model/gguf_llama.h"
#include "model/gguf_tokenizer.h"
#include "model/untrusted_text.h"
#include "text/utf8.h"

namespace lynx::model {
namespace {

/// First of all, so that a file for something else is refused for what it is and not for a detail.
Status check_architecture(const GgufFile& file) {
  std::string_view architecture;
  LYNX_RETURN_IF_ERROR(file.require("general.architecture", &architecture));
  if (architecture == "llama") return {};
  return unimplemented(fmt::format("architecture {} is not supported (only 'llama' is)", quote(architecture)));
}

Result<ModelContents> read_model(const GgufFile& file) {
  LYNX_RETURN_IF_ERROR(check_architecture(file));
  ModelContents contents;
  LYNX_TRY(contents.tokenizer, gguf_tokenizer(file));
  const int vocabulary = static_cast<int>(contents.tokenizer.tokens.size());
  LYNX_TRY(TensorTable table, gguf_tensors(file));
  LYNX_TRY(contents.config, gguf_config(file, vocabulary, table));
  LYNX_TRY(contents.tensors, bind_llama_tensors(contents.config, kGgufTensorNames, table));
  LYNX_TRY(const auto declared, gguf_end_tokens(file, vocabulary));
  contents.config.end_tokens = collect_end_tokens(contents.tokenizer, declared);
  LYNX_TRY(contents.chat_template, gguf_chat_template(file));
  return contents;
}

}  // namespace

Result<ModelContents> parse_gguf_model(std::span<const std::byte> bytes) {
  LYNX_TRY(const GgufFile file, GgufFile::parse(bytes));
  return read_model(file);
}

Result<ModelContents> open_gguf(const std::string& path) {
  LYNX_TRY(MappedFile mapping, MappedFile::open(path));
  auto parsed = GgufFile::parse(mapping.bytes());
  if (!parsed.ok()) return parsed.status().with_context(path);
  auto contents = read_model(*parsed);
  if (!contents.ok()) return contents.status().with_context(path);
  if (!parsed->has("tokenizer.ggml.pre")) {
    log_warning(
        "the file names no pre-tokenizer; GPT-2's is used, and text may be cut in other places than the model was trained on",
        {{"file", path}});
  }
  if (contents->config.name.empty()) {
    const std::string stem = std::filesystem::path(path).stem().string();
    if (!text::find_invalid_utf8(stem)) contents->config.name = stem;
  }
  contents->files.push_back(std::move(mapping));
  return contents;
}

}  // namespace lynx::model
