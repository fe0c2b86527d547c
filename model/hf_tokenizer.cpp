#include "model/hf_tokenizer.h"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/hf_json.h"
#include "model/hf_pre_tokenizer.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;
using text::TokenizerSpec;
using Kind = TokenizerSpec::TokenKind;

Status check_bpe(const json& model) {
  std::string type;
  LYNX_RETURN_IF_ERROR(require_member(model, "type", &type));
  if (type != "BPE") return unimplemented(fmt::format("tokenizer model {} is not supported, only byte-level BPE is", quote(type)));
  bool byte_fallback = false;
  LYNX_RETURN_IF_ERROR(read_member(model, "byte_fallback", &byte_fallback));
  if (byte_fallback) return unimplemented("BPE with byte_fallback (SentencePiece) is not supported, only byte-level BPE is");
  float dropout = 0.0F;
  LYNX_RETURN_IF_ERROR(read_member(model, "dropout", &dropout));
  if (dropout != 0.0F) return unimplemented("BPE with dropout is not supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string affix;
    LYNX_RETURN_IF_ERROR(read_member(model, key, &affix));
    if (!affix.empty()) return unimplemented(fmt::format("BPE with {} is not supported", key));
  }
  return {};
}

/// Every id starts as an unused one without text.
Status read_vocabulary(const json& model, int vocabulary, TokenizerSpec& spec) {
  const json* vocab = find_member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return invalid_argument("'vocab': expected an object");
  spec.tokens.assign(static_cast<std::size_t>(vocabulary), {"", Kind::kUnused});
  for (const auto& [token, value] : vocab->items()) {
    const auto id = as_int(value);
    if (!id || *id < 0 || *id >= vocabulary) {
      return invalid_argument(fmt::format("token {}: its id is not one of the {} rows of the embedding", quote(token), vocabulary));
    }
    TokenizerSpec::Token& slot = spec.tokens[static_cast<std::size_t>(*id)];
    if (slot.kind != Kind::kUnused) {
      return invalid_argument(fmt::format("token {}: shares id {} with {}", quote(token), *id, quote(slot.text)));
    }
    slot = {token, Kind::kNormal};
  }
  return {};
}

/// "a b" up to tokenizers 0.19, ["a", "b"] after.
Status read_merges(const json& model, TokenizerSpec& spec) {
  const json* merges = find_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return invalid_argument("'merges': expected a list");
  spec.merges.reserve(merges->size());
  for (const json& merge : *merges) {
    std::pair<std::string, std::string> pair;
    if (merge.is_string()) {
      const auto& both = merge.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space != std::string::npos && both.find(' ', space + 1) == std::string::npos) {
        pair = {both.substr(0, space), both.substr(space + 1)};
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      pair = {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    if (pair.first.empty() || pair.second.empty()) {
      return invalid_argument(fmt::format("merge {}: expected two tokens", spec.merges.size()));
    }
    spec.merges.push_back(std::move(pair));
  }
  return {};
}

Status add_token(const json& entry, int id, TokenizerSpec& spec) {
  std::string content;
  LYNX_RETURN_IF_ERROR(require_member(entry, "content", &content));
  const std::string where = "added token " + quote(content);
  if (content.empty()) return invalid_argument(where + ": is empty");
  if (id < 0 || static_cast<std::size_t>(id) >= spec.tokens.size()) {
    return invalid_argument(fmt::format("{}: id {} is not one of the {} rows of the embedding", where, id, spec.tokens.size()));
  }
  bool special = false;
  bool single_word = false;
  bool normalized = false;
  TokenizerSpec::Token token{std::move(content), Kind::kUserDefined};
  LYNX_RETURN_IF_ERROR(read_member(entry, "special", &special));
  LYNX_RETURN_IF_ERROR(read_member(entry, "single_word", &single_word));
  LYNX_RETURN_IF_ERROR(read_member(entry, "normalized", &normalized));
  LYNX_RETURN_IF_ERROR(read_member(entry, "lstrip", &token.strip_left));
  LYNX_RETURN_IF_ERROR(read_member(entry, "rstrip", &token.strip_right));
  if (single_word) return unimplemented(where + ": single_word is not supported");
  if (normalized && spec.normalizer != text::Normalizer::kNone) {
    return unimplemented(where + ": 'normalized' together with a normalizer is not supported");
  }
  if (special) token.kind = Kind::kControl;
  TokenizerSpec::Token& slot = spec.tokens[static_cast<std::size_t>(id)];
  if (slot.kind != Kind::kUnused && slot.text != token.text) {
    return invalid_argument(fmt::format("{}: id {} belongs to {}", where, id, quote(slot.text)));
  }
  slot = std::move(token);
  return {};
}

Status read_added_tokens(const json& root, TokenizerSpec& spec) {
  const json* list = find_member(root, "added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return invalid_argument("'added_tokens': expected a list");
  for (const json& entry : *list) {
    int id = -1;
    LYNX_RETURN_IF_ERROR(require_member(entry, "id", &id));
    LYNX_RETURN_IF_ERROR(add_token(entry, id, spec));
  }
  return {};
}

/// tokenizer_config.json keeps added tokens by id.
Status read_added_tokens_decoder(const json& root, TokenizerSpec& spec) {
  const json* table = find_member(root, "added_tokens_decoder");
  if (table == nullptr) return {};
  for (const auto& [key, entry] : table->items()) {
    int id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size()) {
      return invalid_argument(fmt::format("'added_tokens_decoder': {} is not an id", quote(key)));
    }
    LYNX_RETURN_IF_ERROR(add_token(entry, id, spec));
  }
  return {};
}

/// A special token is named by its text, alone or as the "content" of an object.
Status name_special(const json& root, const char* key, TokenizerSpec& spec, std::int32_t* id) {
  const json* member = find_member(root, key);
  if (member == nullptr) return {};
  std::string name;
  if (member->is_object()) {
    LYNX_RETURN_IF_ERROR(require_member(*member, "content", &name));
  } else {
    LYNX_RETURN_IF_ERROR(read_member(root, key, &name));
  }
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    TokenizerSpec::Token& token = spec.tokens[i];
    if (token.kind == Kind::kUnused || token.text != name) continue;
    token.kind = Kind::kControl;
    *id = static_cast<std::int32_t>(i);
    return {};
  }
  return invalid_argument(fmt::format("'{}': {} is not in the vocabulary", key, quote(name)));
}

}  // namespace

Result<TokenizerSpec> parse_hf_tokenizer(const json& root, int vocabulary) {
  const json* model = find_member(root, "model");
  if (model == nullptr || !model->is_object()) return invalid_argument("'model': expected an object");
  LYNX_RETURN_IF_ERROR(check_bpe(*model));
  TokenizerSpec spec;
  LYNX_TRY(spec.normalizer, recognise_normalizer(root));
  LYNX_TRY(spec.pre_tokenizer, recognise_pre_tokenizer(root));
  LYNX_RETURN_IF_ERROR(check_decoder(root));
  LYNX_RETURN_IF_ERROR(read_vocabulary(*model, vocabulary, spec));
  LYNX_RETURN_IF_ERROR(read_merges(*model, spec));
  LYNX_RETURN_IF_ERROR(read_member(*model, "ignore_merges", &spec.ignore_merges));
  LYNX_RETURN_IF_ERROR(read_added_tokens(root, spec));
  LYNX_TRY(const auto prefix, recognise_prefix(root));
  if (!prefix) return spec;
  if (*prefix < 0 || *prefix >= vocabulary) {
    return invalid_argument(fmt::format("'post_processor': token {} is not one of {}", *prefix, vocabulary));
  }
  spec.bos = *prefix;
  spec.add_bos = true;
  return spec;
}

Status apply_tokenizer_config(const json& root, TokenizerSpec& spec) {
  if (!root.is_object()) return invalid_argument("expected an object");
  LYNX_RETURN_IF_ERROR(read_added_tokens_decoder(root, spec));
  std::int32_t bos = spec.bos;
  LYNX_RETURN_IF_ERROR(name_special(root, "bos_token", spec, &bos));
  LYNX_RETURN_IF_ERROR(name_special(root, "eos_token", spec, &spec.eos));
  LYNX_RETURN_IF_ERROR(name_special(root, "pad_token", spec, &spec.pad));
  LYNX_RETURN_IF_ERROR(name_special(root, "unk_token", spec, &spec.unknown));
  const bool prefix_is_bos = !spec.add_bos || bos == spec.bos;
  LYNX_RETURN_IF_ERROR(read_member(root, "add_bos_token", &spec.add_bos));
  if (find_member(root, "add_bos_token") == nullptr && !prefix_is_bos) {
    return unimplemented("a post-processor that starts with another token than bos is not supported");
  }
  spec.bos = bos;
  if (bos < 0) spec.add_bos = false;
  return {};
}

Result<std::optional<std::string>> parse_chat_template(const json& root) {
  std::optional<std::string> none;
  const json* member = find_member(root, "chat_template");
  if (member == nullptr) return none;
  if (member->is_string()) return std::optional{member->get<std::string>()};
  if (!member->is_array()) return invalid_argument("'chat_template': expected a string or a list");
  for (const json& entry : *member) {
    std::string name;
    LYNX_RETURN_IF_ERROR(read_member(entry, "name", &name));
    if (name != "default") continue;
    std::string source;
    LYNX_RETURN_IF_ERROR(require_member(entry, "template", &source));
    return std::optional{std::move(source)};
  }
  return none;
}

}  // namespace lynx::model
