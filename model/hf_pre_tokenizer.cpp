#include "model/hf_pre_tokenizer.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "model/hf_json.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string type_of(const json& step) {
  const json* type = find_member(step, "type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : "unknown";
}

Status refuse(std::string_view part, const std::string& what) {
  return unimplemented(fmt::format("'{}' {} is not supported", part, what));
}

/// The steps of a "Sequence", or the one step that stands alone.
std::vector<const json*> steps_of(const json& part, const char* list_key) {
  std::vector<const json*> steps;
  const json* list = find_member(part, list_key);
  if (type_of(part) != "Sequence" || list == nullptr || !list->is_array()) return {&part};
  for (const json& step : *list) steps.push_back(&step);
  return steps;
}

/// A ByteLevel step; its own GPT-2 pattern is wanted or not.
Result<bool> byte_level_cuts(const json& step) {
  bool prefix_space = true;
  bool use_regex = true;
  LYNX_RETURN_IF_ERROR(read_member(step, "add_prefix_space", &prefix_space));
  LYNX_RETURN_IF_ERROR(read_member(step, "use_regex", &use_regex));
  if (prefix_space) return refuse("pre_tokenizer", "ByteLevel with add_prefix_space");
  return use_regex;
}

Result<text::PreTokenizer> recognise_split(const json& step) {
  std::string pattern;
  std::string behavior;
  bool invert = false;
  if (const json* holder = find_member(step, "pattern")) LYNX_RETURN_IF_ERROR(read_member(*holder, "Regex", &pattern));
  LYNX_RETURN_IF_ERROR(read_member(step, "behavior", &behavior));
  LYNX_RETURN_IF_ERROR(read_member(step, "invert", &invert));
  // The patterns match every character, so keeping the matches alone is the same as isolating them.
  if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) {
    return refuse("pre_tokenizer", fmt::format("Split with behavior {} and invert {}", quote(behavior), invert));
  }
  if (pattern == kLlama3Pattern) return text::PreTokenizer::kLlama3;
  if (pattern == kQwen2Pattern) return text::PreTokenizer::kQwen2;
  return refuse("pre_tokenizer", fmt::format("Split at {}", quote(pattern)));
}

/// Token id of a piece of a post-processor's template; nullopt for a text's place.
Result<std::optional<std::int32_t>> special_piece(const json& processor, const json& piece) {
  const json* special = find_member(piece, "SpecialToken");
  if (special == nullptr) return std::optional<std::int32_t>{};
  std::string name;
  LYNX_RETURN_IF_ERROR(require_member(*special, "id", &name));
  const json* table = find_member(processor, "special_tokens");
  const json* entry = table == nullptr ? nullptr : find_member(*table, name.c_str());
  const json* ids = entry == nullptr ? nullptr : find_member(*entry, "ids");
  if (ids == nullptr || !ids->is_array() || ids->size() != 1) {
    return invalid_argument(fmt::format("'post_processor': special token {} has no single id", quote(name)));
  }
  const auto id = as_int(ids->front());
  if (!id) return invalid_argument(fmt::format("'post_processor': special token {} has no single id", quote(name)));
  return std::optional<std::int32_t>{*id};
}

/// "single": nothing but the text, or one special token before it.
Result<std::optional<std::int32_t>> template_prefix(const json& processor) {
  const json* single = find_member(processor, "single");
  if (single == nullptr || !single->is_array() || single->empty()) {
    return invalid_argument("'post_processor': 'single': expected a list");
  }
  LYNX_TRY(const auto first, special_piece(processor, single->front()));
  LYNX_TRY(const auto last, special_piece(processor, single->back()));
  if (last || single->size() > 2 || (single->size() == 2 && !first)) {
    return refuse("post_processor", "TemplateProcessing with more than a token before the text");
  }
  return first;
}

}  // namespace

Result<text::Normalizer> recognise_normalizer(const json& root) {
  const json* normalizer = find_member(root, "normalizer");
  if (normalizer == nullptr) return text::Normalizer::kNone;
  const auto steps = steps_of(*normalizer, "normalizers");
  if (steps.empty()) return text::Normalizer::kNone;
  if (steps.size() == 1 && type_of(*steps.front()) == "NFC") return text::Normalizer::kNfc;
  return refuse("normalizer", quote(type_of(*steps.front())));
}

Result<text::PreTokenizer> recognise_pre_tokenizer(const json& root) {
  const json* part = find_member(root, "pre_tokenizer");
  if (part == nullptr) return refuse("pre_tokenizer", "null");
  const auto steps = steps_of(*part, "pretokenizers");
  if (steps.empty() || type_of(*steps.back()) != "ByteLevel") {
    return refuse("pre_tokenizer", steps.empty() ? "with no steps" : quote(type_of(*steps.back())));
  }
  LYNX_TRY(const bool cuts, byte_level_cuts(*steps.back()));
  if (steps.size() == 1 && cuts) return text::PreTokenizer::kGpt2;
  if (steps.size() == 2) {
    const std::string first = type_of(*steps.front());
    bool individual = false;
    LYNX_RETURN_IF_ERROR(read_member(*steps.front(), "individual_digits", &individual));
    if (first == "Digits" && individual && cuts) return text::PreTokenizer::kSmolLm;
    if (first == "Split" && !cuts) return recognise_split(*steps.front());
    return refuse("pre_tokenizer", quote(first) + " before ByteLevel, as it is set,");
  }
  return refuse("pre_tokenizer", fmt::format("with {} steps{}", steps.size(), cuts ? "" : " and no pattern"));
}

Status check_decoder(const json& root) {
  const json* decoder = find_member(root, "decoder");
  if (decoder == nullptr || type_of(*decoder) == "ByteLevel") return {};
  return refuse("decoder", quote(type_of(*decoder)));
}

Result<std::optional<std::int32_t>> recognise_prefix(const json& root) {
  std::optional<std::int32_t> prefix;
  const json* part = find_member(root, "post_processor");
  if (part == nullptr) return prefix;
  for (const json* step : steps_of(*part, "processors")) {
    const std::string type = type_of(*step);
    if (type == "ByteLevel") continue;  // Moves offsets only.
    if (type != "TemplateProcessing" || prefix) return refuse("post_processor", quote(type));
    LYNX_TRY(prefix, template_prefix(*step));
  }
  return prefix;
}

}  // namespace lynx::model
