// Against Hugging Face `tokenizers` (tests/goldens/make_tokenizer_goldens.py) and the id lists that come with the vocabularies.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/text/vocab_file.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace lynx::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path << " (scripts/fetch_test_vocabs.sh fetches what lies under .cache)");
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

Tokenizer load(const std::string& family) {
  auto spec = test::read_gguf_vocabulary(family == "smollm" ? test::default_model_path() : test::fetched_vocabulary_path(family));
  INFO(spec.status().to_string());
  REQUIRE(spec.ok());
  auto tokenizer = Tokenizer::create(*spec);
  INFO(tokenizer.status().to_string());
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  auto ids = tokenizer.encode(text, parse_special);
  INFO(ids.status().to_string());
  REQUIRE(ids.ok());
  return *std::move(ids);
}

TEST_CASE("Awkward texts in four families, token for token") {
  const auto cases = nlohmann::json::parse(read_file("tests/goldens/tokenizer/cases.json"));
  REQUIRE(cases.size() > 100);
  for (const std::string family : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = load(family);
    for (const auto& entry : cases) {
      const auto text = entry["text"].get<std::string>();
      CAPTURE(family, text);
      const auto& as_text = entry.contains("as_text") ? entry["as_text"] : entry["parsed"];
      CHECK(encode(tokenizer, text, true) == entry["parsed"][family].get<Ids>());
      CHECK(encode(tokenizer, text, false) == as_text[family].get<Ids>());
    }
  }
}

TEST_CASE("The id lists that come with the vocabularies") {
  const std::string separator = "\n__ggml_vocab_test__\n";
  for (const std::string family : {"gpt-2", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = load(family);
    const std::string path = test::fetched_vocabulary_path(family);
    const std::string texts = read_file(path + ".inp");
    std::istringstream lists(read_file(path + ".out"));
    int compared = 0;
    for (std::size_t begin = 0; begin != std::string::npos; ++compared) {
      const std::size_t end = texts.find(separator, begin);
      const std::string text = texts.substr(begin, end - begin);
      begin = end == std::string::npos ? end : end + separator.size();
      std::string line;
      std::getline(lists, line);
      std::istringstream numbers(line);
      const Ids wanted{std::istream_iterator<std::int32_t>(numbers), {}};
      CAPTURE(family, text);
      CHECK(encode(tokenizer, text, false) == wanted);
    }
    CHECK(compared == 47);
  }
}

TEST_CASE("Special tokens that overlap and take white space") {
  const auto golden = nlohmann::json::parse(read_file("tests/goldens/tokenizer/added.json"));
  TokenizerSpec spec;
  for (const auto& token : golden["tokens"]) spec.tokens.push_back({.text = token.get<std::string>()});
  for (const auto& merge : golden["merges"]) spec.merges.emplace_back(merge[0], merge[1]);
  for (const auto& token : golden["added"]) {
    spec.tokens.push_back({.text = token["text"],
                           .kind = token["special"] ? TokenizerSpec::TokenKind::kControl : TokenizerSpec::TokenKind::kUserDefined,
                           .strip_left = token["lstrip"],
                           .strip_right = token["rstrip"]});
  }
  const auto tokenizer = Tokenizer::create(spec);
  REQUIRE(tokenizer.ok());
  for (const auto& entry : golden["cases"]) {
    const auto text = entry["text"].get<std::string>();
    CAPTURE(text);
    CHECK(encode(*tokenizer, text, true) == entry["parsed"].get<Ids>());
    CHECK(encode(*tokenizer, text, false) == entry["as_text"].get<Ids>());
  }
}

/// How many pieces GPT-2's pattern cuts `text` into.
int pieces(PieceScanner& scanner, std::string_view text) {
  scanner.start(text);
  for (int count = 0;; ++count) {
    const auto piece = scanner.next();
    if (!piece.ok()) FAIL(piece.status().to_string());
    if (piece->empty()) return count;
  }
}

TEST_CASE("Every code point has the class that the oracle gives it") {
  std::vector<char> wanted(0x110000, '-');
  std::istringstream ranges(read_file("tests/goldens/tokenizer/classes.txt"));
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  for (char name = 0; ranges >> std::hex >> first >> last >> name;) std::fill(&wanted[first], &wanted[last] + 1, name);
  const auto splitter = PieceSplitter::create(PreTokenizer::kGpt2);
  REQUIRE(splitter.ok());
  auto scanner = PieceScanner::create(*splitter);
  REQUIRE(scanner.ok());
  std::size_t wrong = 0;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string character;
    append_utf8(character, c);
    const char found = pieces(*scanner, "x" + character) == 1   ? 'L'
                       : pieces(*scanner, "1" + character) == 1 ? 'N'
                       : pieces(*scanner, "!" + character) == 1 ? '-'
                                                                : 'S';
    if (found != wanted[c] && ++wrong < 10) {
      CAPTURE(c);
      CHECK(found == wanted[c]);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Every code point composes as in the oracle") {
  std::istringstream golden(read_file("tests/goldens/tokenizer/nfc.txt"));
  for (std::uint32_t first = 0; first < 0x110000; first += 4096) {
    std::string text;
    for (std::uint32_t c = first; c < first + 4096; ++c) {
      if (c >= 0xd800 && c <= 0xdfff) continue;
      text += 'e';
      append_utf8(text, c);
      text += "\u0323\u0301 ";
    }
    if (text.empty()) continue;
    const auto composed = to_nfc(text);
    REQUIRE(composed.ok());
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char byte : *composed) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    std::string line;
    REQUIRE(std::getline(golden, line));
    CHECK(fmt::format("{:x} {:016x}", first, hash) == line);
  }
}

}  // namespace
}  // namespace lynx::text
