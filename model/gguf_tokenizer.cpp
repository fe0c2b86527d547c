#include "model/gguf_tokenizer.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "model/untrusted_text.h"
#include "text/utf8.h"

namespace lynx::model {
namespace {

using text::PreTokenizer;
using text::TokenizerSpec;

constexpr std::size_t kMostTokens = std::size_t{1} << 22;

struct PreTokenizerName {
  std::string_view name;
  PreTokenizer kind;
  bool llama3_defaults;  ///< Whole-piece tokens before merges, and a leading bos unless the file says otherwise.
};

// Names that llama.cpp maps to these four patterns.
constexpr PreTokenizerName kPreTokenizers[] = {
    {"default", PreTokenizer::kGpt2, false},     {"gpt-2", PreTokenizer::kGpt2, false},
    {"phi-2", PreTokenizer::kGpt2, false},       {"olmo", PreTokenizer::kGpt2, false},
    {"llama3", PreTokenizer::kLlama3, true},     {"llama-v3", PreTokenizer::kLlama3, true},
    {"llama-bpe", PreTokenizer::kLlama3, true},  {"falcon3", PreTokenizer::kLlama3, true},
    {"smaug-bpe", PreTokenizer::kLlama3, false}, {"dbrx", PreTokenizer::kLlama3, false},
    {"qwen2", PreTokenizer::kQwen2, false},      {"deepseek-r1-qwen", PreTokenizer::kQwen2, false},
    {"smollm", PreTokenizer::kSmolLm, false},    {"starcoder", PreTokenizer::kSmolLm, false},
    {"refact", PreTokenizer::kSmolLm, false}};

Status read_pre_tokenizer(const GgufFile& file, TokenizerSpec& spec) {
  std::string_view model;
  LYNX_RETURN_IF_ERROR(file.require("tokenizer.ggml.model", &model));
  if (model == "llama") return unimplemented("tokenizer model 'llama' (SentencePiece) is not supported, only byte-level BPE is");
  if (model != "gpt2") {
    return unimplemented(fmt::format("tokenizer model {} is not supported, only byte-level BPE ('gpt2') is", quote(model)));
  }
  std::string_view pre = "default";
  LYNX_RETURN_IF_ERROR(file.read("tokenizer.ggml.pre", &pre));
  for (const PreTokenizerName& known : kPreTokenizers) {
    if (known.name != pre) continue;
    spec.pre_tokenizer = known.kind;
    // GGUF has no key for it, but every tokenizer that is cut this way normalizes first.
    if (known.kind == PreTokenizer::kQwen2) spec.normalizer = text::Normalizer::kNfc;
    spec.ignore_merges = known.llama3_defaults;
    spec.add_bos = known.llama3_defaults;
    return {};
  }
  return unimplemented(fmt::format("pre-tokenizer {} is not supported", quote(pre)));
}

/// llama.cpp's numbers: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte (SentencePiece only).
std::optional<TokenizerSpec::TokenKind> token_kind(int number) {
  switch (number) {
    case 1: return TokenizerSpec::TokenKind::kNormal;
    case 2:
    case 3: return TokenizerSpec::TokenKind::kControl;
    case 4: return TokenizerSpec::TokenKind::kUserDefined;
    case 5: return TokenizerSpec::TokenKind::kUnused;
    default: return std::nullopt;
  }
}

Status read_tokens(const GgufFile& file, TokenizerSpec& spec) {
  std::vector<std::string_view> texts;
  LYNX_RETURN_IF_ERROR(file.require("tokenizer.ggml.tokens", &texts));
  if (texts.size() > kMostTokens)
    return invalid_argument(fmt::format("{} tokens (at most {} are accepted)", texts.size(), kMostTokens));
  std::vector<int> kinds(texts.size(), 1);
  LYNX_RETURN_IF_ERROR(file.read("tokenizer.ggml.token_type", &kinds));
  if (kinds.size() != texts.size()) {
    return invalid_argument(fmt::format("{} tokens, but {} token types", texts.size(), kinds.size()));
  }
  spec.tokens.reserve(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const auto kind = token_kind(kinds[id]);
    if (!kind) return invalid_argument(fmt::format("token {}: type {} is not one of byte-level BPE", id, kinds[id]));
    if (text::find_invalid_utf8(texts[id])) return invalid_argument(fmt::format("token {}: not valid UTF-8", id));
    spec.tokens.push_back({std::string(texts[id]), *kind});
  }
  return {};
}

Status read_merges(const GgufFile& file, TokenizerSpec& spec) {
  std::vector<std::string_view> merges;
  LYNX_RETURN_IF_ERROR(file.require("tokenizer.ggml.merges", &merges));
  spec.merges.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::size_t space = merges[rank].find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merges[rank].size() ||
        merges[rank].find(' ', space + 1) != std::string_view::npos) {
      return invalid_argument(fmt::format("merge {} ({}): not two tokens with a space between", rank, quote(merges[rank])));
    }
    spec.merges.emplace_back(merges[rank].substr(0, space), merges[rank].substr(space + 1));
  }
  return {};
}

/// Leaves −1 where the file has no such key, or says −1 itself.
Status read_token_id(const GgufFile& file, std::string_view key, int vocabulary, std::int32_t* id) {
  int value = -1;
  LYNX_RETURN_IF_ERROR(file.read(key, &value));
  if (value < -1 || value >= vocabulary) {
    return invalid_argument(fmt::format("metadata key '{}': token {} is not one of {} tokens", key, value, vocabulary));
  }
  *id = value;
  return {};
}

}  // namespace

Result<TokenizerSpec> gguf_tokenizer(const GgufFile& file) {
  TokenizerSpec spec;
  LYNX_RETURN_IF_ERROR(read_pre_tokenizer(file, spec));
  LYNX_RETURN_IF_ERROR(read_tokens(file, spec));
  LYNX_RETURN_IF_ERROR(read_merges(file, spec));
  const int vocabulary = static_cast<int>(spec.tokens.size());
  LYNX_RETURN_IF_ERROR(read_token_id(file, "tokenizer.ggml.bos_token_id", vocabulary, &spec.bos));
  LYNX_RETURN_IF_ERROR(read_token_id(file, "tokenizer.ggml.eos_token_id", vocabulary, &spec.eos));
  LYNX_RETURN_IF_ERROR(read_token_id(file, "tokenizer.ggml.padding_token_id", vocabulary, &spec.pad));
  LYNX_RETURN_IF_ERROR(read_token_id(file, "tokenizer.ggml.unknown_token_id", vocabulary, &spec.unknown));
  LYNX_RETURN_IF_ERROR(file.read("tokenizer.ggml.add_bos_token", &spec.add_bos));
  if (spec.bos < 0) spec.add_bos = false;
  return spec;
}

Result<std::vector<std::int32_t>> gguf_end_tokens(const GgufFile& file, int vocabulary) {
  std::vector<std::int32_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    LYNX_RETURN_IF_ERROR(read_token_id(file, key, vocabulary, &ids.emplace_back(-1)));
  }
  return ids;
}

Result<std::optional<std::string>> gguf_chat_template(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (!file.has(kKey)) return std::optional<std::string>{};
  std::string_view source;
  LYNX_RETURN_IF_ERROR(file.read(kKey, &source));
  if (text::find_invalid_utf8(source)) return invalid_argument(fmt::format("metadata key '{}': not valid UTF-8", kKey));
  return std::optional{std::string(source)};
}

}  // namespace lynx::model
