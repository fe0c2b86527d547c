#include "model/hf_tokenizer.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "model/hf_json.h"
#include "tests/catch.h"
#include "tests/model/hf_files.h"

namespace lynx::model {
namespace {

using nlohmann::json;
using testing::kTinyModels;
using testing::read_json;
using text::TokenizerSpec;

constexpr int kVocabulary = 304;

json tiny_tokenizer() {
  return read_json(kTinyModels + "single/tokenizer.json");
}

json tiny_tokenizer_config() {
  return read_json(kTinyModels + "single/tokenizer_config.json");
}

struct Damage {
  std::function<void(json&)> apply;
  Code code;
  const char* part;
};

TEST_CASE("tokenizer.json as the tokenizers library writes it") {
  auto spec = parse_hf_tokenizer(tiny_tokenizer(), kVocabulary);
  REQUIRE(spec.status().to_string() == "OK");
  REQUIRE(apply_tokenizer_config(tiny_tokenizer_config(), *spec).ok());
  CHECK(spec->pre_tokenizer == text::PreTokenizer::kLlama3);
  CHECK(spec->normalizer == text::Normalizer::kNone);
  CHECK(spec->ignore_merges);
  CHECK(spec->add_bos);
  CHECK(spec->bos == 290);
  CHECK(spec->eos == 291);
  CHECK(spec->pad == -1);
  REQUIRE(spec->tokens.size() == kVocabulary);
  CHECK(spec->tokens[290].text == "<|begin_of_text|>");
  CHECK(spec->tokens[290].kind == TokenizerSpec::TokenKind::kControl);
  CHECK(spec->tokens[293].text == "<think>");
  CHECK(spec->tokens[293].kind == TokenizerSpec::TokenKind::kUserDefined);
  CHECK(spec->tokens[294].kind == TokenizerSpec::TokenKind::kUnused);
  CHECK(spec->tokens[289].kind == TokenizerSpec::TokenKind::kNormal);
  CHECK(spec->merges.size() == 34);
}

TEST_CASE("Merges as strings are the same as merges as pairs") {
  json strings = tiny_tokenizer();
  for (json& merge : strings["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const auto from_pairs = parse_hf_tokenizer(tiny_tokenizer(), kVocabulary);
  const auto from_strings = parse_hf_tokenizer(strings, kVocabulary);
  REQUIRE(from_pairs.ok());
  REQUIRE(from_strings.ok());
  CHECK(from_pairs->merges == from_strings->merges);
}

TEST_CASE("The pre-tokenizers that are known") {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json bare = byte_level;
  bare["use_regex"] = false;
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  json split = tiny_tokenizer()["pre_tokenizer"]["pretokenizers"][0];
  json qwen = split;
  std::string pattern = qwen["pattern"]["Regex"];
  const std::size_t triples = pattern.find("{1,3}");
  REQUIRE(triples != std::string::npos);
  qwen["pattern"]["Regex"] = pattern.erase(triples, 5);
  json removed = split;
  removed["behavior"] = "Removed";
  removed["invert"] = true;
  const auto sequence = [](const json& a, const json& b) { return json{{"type", "Sequence"}, {"pretokenizers", {a, b}}}; };

  const auto recognise = [](const json& part) {
    json root = tiny_tokenizer();
    root["pre_tokenizer"] = part;
    return parse_hf_tokenizer(root, kVocabulary);
  };
  const std::pair<json, text::PreTokenizer> known[] = {{byte_level, text::PreTokenizer::kGpt2},
                                                       {sequence(digits, byte_level), text::PreTokenizer::kSmolLm},
                                                       {sequence(split, bare), text::PreTokenizer::kLlama3},
                                                       {sequence(removed, bare), text::PreTokenizer::kLlama3},
                                                       {sequence(qwen, bare), text::PreTokenizer::kQwen2}};
  for (const auto& [part, kind] : known) {
    const auto spec = recognise(part);
    CAPTURE(part.dump(), spec.status().to_string());
    REQUIRE(spec.ok());
    CHECK(spec->pre_tokenizer == kind);
  }
  json spaced = byte_level;
  spaced["add_prefix_space"] = true;
  json other = split;
  other["pattern"]["Regex"] = "\\w+";
  json lazy = digits;
  lazy["individual_digits"] = false;
  json isolated_inverse = split;
  isolated_inverse["invert"] = true;
  for (const json& part :
       {json(nullptr), bare, spaced, sequence(other, bare), sequence(split, byte_level), sequence(lazy, byte_level),
        sequence(digits, bare), sequence(isolated_inverse, bare), json{{"type", "Metaspace"}},
        json{{"type", "Sequence"}, {"pretokenizers", json::array()}}, sequence(byte_level, digits)}) {
    const auto spec = recognise(part);
    CAPTURE(part.dump(), spec.status().to_string());
    CHECK(spec.status().code() == Code::kUnimplemented);
    CHECK(spec.status().message().find("pre_tokenizer") != std::string::npos);
  }
}

TEST_CASE("Other tokenizers, and broken ones, are refused by name") {
  const auto added = [](json& root, std::size_t index) -> json& { return root["added_tokens"][index]; };
  const std::vector<Damage> table = {
      {[](json& t) { t["model"]["type"] = "Unigram"; }, Code::kUnimplemented, "'Unigram'"},
      {[](json& t) { t["model"]["byte_fallback"] = true; }, Code::kUnimplemented, "SentencePiece"},
      {[](json& t) { t["model"]["dropout"] = 0.1; }, Code::kUnimplemented, "dropout"},
      {[](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }, Code::kUnimplemented, "end_of_word_suffix"},
      {[](json& t) {
         t["normalizer"] = {{"type", "Lowercase"}};
       },
       Code::kUnimplemented, "'Lowercase'"},
      {[](json& t) {
         t["decoder"] = {{"type", "Metaspace"}};
       },
       Code::kUnimplemented, "'Metaspace'"},
      {[](json& t) {
         t["post_processor"] = {{"type", "BertProcessing"}};
       },
       Code::kUnimplemented, "'BertProcessing'"},
      {[](json& t) {
         t["post_processor"]["processors"][1]["single"].push_back({{"SpecialToken", {{"id", "<|begin_of_text|>"}}}});
       },
       Code::kUnimplemented, "TemplateProcessing"},
      {[](json& t) { t["post_processor"]["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = {999}; },
       Code::kInvalidArgument, "token 999"},
      {[](json& t) { t["post_processor"]["processors"][1]["special_tokens"] = json::object(); }, Code::kInvalidArgument,
       "no single id"},
      {[&](json& t) { added(t, 0)["single_word"] = true; }, Code::kUnimplemented, "single_word"},
      {[&](json& t) {
         t["normalizer"] = {{"type", "NFC"}};
         added(t, 3)["normalized"] = true;
       },
       Code::kUnimplemented, "'<think>': 'normalized'"},
      {[&](json& t) { added(t, 0)["id"] = 304; }, Code::kInvalidArgument, "id 304"},
      {[&](json& t) { added(t, 0)["id"] = -1; }, Code::kInvalidArgument, "id -1"},
      {[&](json& t) { added(t, 0)["id"] = 3; }, Code::kInvalidArgument, "belongs to"},
      {[&](json& t) { added(t, 0)["content"] = ""; }, Code::kInvalidArgument, "empty"},
      {[](json& t) { t["model"]["vocab"]["!"] = 1; }, Code::kInvalidArgument, "shares id 1"},
      {[](json& t) { t["model"]["vocab"]["!"] = 1e3; }, Code::kInvalidArgument, "'!'"},
      {[](json& t) { t["model"]["vocab"]["!"] = 1000000; }, Code::kInvalidArgument, "304 rows"},
      {[](json& t) { t["model"]["merges"][5] = "abc"; }, Code::kInvalidArgument, "merge 5"},
      {[](json& t) {
         t["model"]["merges"][6] = {"a", "b", "c"};
       },
       Code::kInvalidArgument, "merge 6"},
      {[](json& t) { t["model"].erase("merges"); }, Code::kInvalidArgument, "'merges'"},
      {[](json& t) { t.erase("model"); }, Code::kInvalidArgument, "'model'"},
  };
  for (const Damage& damage : table) {
    json root = tiny_tokenizer();
    damage.apply(root);
    const Status status = parse_hf_tokenizer(root, kVocabulary).status();
    CAPTURE(damage.part, status.to_string());
    CHECK(status.code() == damage.code);
    CHECK(status.message().find(damage.part) != std::string::npos);
  }
}

TEST_CASE("NFC and stripping added tokens are passed on") {
  json root = tiny_tokenizer();
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  root["added_tokens"][0]["lstrip"] = true;
  root["added_tokens"][1]["rstrip"] = true;
  const auto spec = parse_hf_tokenizer(root, kVocabulary);
  REQUIRE(spec.status().to_string() == "OK");
  CHECK(spec->normalizer == text::Normalizer::kNfc);
  CHECK(spec->tokens[290].strip_left);
  CHECK_FALSE(spec->tokens[290].strip_right);
  CHECK(spec->tokens[291].strip_right);
}

TEST_CASE("tokenizer_config.json: names, bos and further tokens") {
  const auto apply = [](const json& changes, TokenizerSpec* out) {
    auto spec = parse_hf_tokenizer(tiny_tokenizer(), kVocabulary);
    REQUIRE(spec.ok());
    json root = tiny_tokenizer_config();
    root.update(changes);
    const Status status = apply_tokenizer_config(root, *spec);
    *out = *spec;
    return status;
  };
  TokenizerSpec spec;
  REQUIRE(apply({{"eos_token", {{"content", "<|eot_id|>"}, {"lstrip", false}}}, {"pad_token", "!"}}, &spec).ok());
  CHECK(spec.eos == 292);
  CHECK(spec.pad == 0);
  CHECK(spec.tokens[0].kind == TokenizerSpec::TokenKind::kControl);
  REQUIRE(apply({{"add_bos_token", false}}, &spec).ok());
  CHECK_FALSE(spec.add_bos);
  REQUIRE(apply({{"added_tokens_decoder", {{"300", {{"content", "<extra>"}, {"special", true}}}}}}, &spec).ok());
  CHECK(spec.tokens[300].text == "<extra>");
  CHECK(apply({{"bos_token", "<|eot_id|>"}}, &spec).code() == Code::kUnimplemented);
  CHECK(apply({{"eos_token", "</s>"}}, &spec).message().find("'</s>' is not in the vocabulary") != std::string::npos);
  CHECK(apply({{"added_tokens_decoder", {{"x", {{"content", "<extra>"}}}}}}, &spec).code() == Code::kInvalidArgument);
  CHECK(apply({{"added_tokens_decoder", {{"99999999999", {{"content", "<extra>"}}}}}}, &spec).code() == Code::kInvalidArgument);
  CHECK(apply({{"add_bos_token", 1}}, &spec).code() == Code::kInvalidArgument);
}

TEST_CASE("Chat templates: a string, or the default of a list") {
  CHECK_FALSE(parse_chat_template(json::object())->has_value());
  CHECK(**parse_chat_template({{"chat_template", "x"}}) == "x");
  const json list = {{{"name", "tool_use"}, {"template", "t"}}, {{"name", "default"}, {"template", "d"}}};
  CHECK(**parse_chat_template({{"chat_template", list}}) == "d");
  CHECK_FALSE(parse_chat_template({{"chat_template", json::array()}})->has_value());
  CHECK(parse_chat_template({{"chat_template", 3}}).status().code() == Code::kInvalidArgument);
}

}  // namespace
}  // namespace lynx::model
