#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/text/vocab_file.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace lynx::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Kind = TokenizerSpec::TokenKind;

TokenizerSpec load_spec(const std::string& family) {
  auto spec = test::read_gguf_vocabulary(family == "smollm" ? test::default_model_path() : test::fetched_vocabulary_path(family));
  INFO(spec.status().to_string());
  REQUIRE(spec.ok());
  return *std::move(spec);
}

Tokenizer make(const TokenizerSpec& spec) {
  auto tokenizer = Tokenizer::create(spec);
  INFO(tokenizer.status().to_string());
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = true) {
  auto ids = tokenizer.encode(text, parse_special);
  INFO(ids.status().to_string());
  REQUIRE(ids.ok());
  return *std::move(ids);
}

/// All 256 bytes and random merges over few letters: long chains of them, in a random order of ranks.
TokenizerSpec random_spec(std::mt19937_64& random, const std::string& letters, int merges) {
  TokenizerSpec spec;
  std::vector<std::string> known;
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back({.text = spelling_of_bytes(std::string(1, static_cast<char>(byte)))});
  for (const char letter : letters) known.push_back(spelling_of_bytes(std::string(1, letter)));
  for (int i = 0; i < merges; ++i) {
    const std::string left = known[random() % known.size()];
    const std::string right = known[random() % known.size()];
    if (std::find(known.begin(), known.end(), left + right) != known.end()) continue;
    known.push_back(left + right);
    spec.tokens.push_back({.text = left + right});
    spec.merges.emplace_back(left, right);
  }
  std::shuffle(spec.merges.begin(), spec.merges.end(), random);
  return spec;
}

/// The definition: as long as some neighbours merge, merge those of lowest rank, leftmost first.
std::vector<std::string> merge_by_definition(const TokenizerSpec& spec, const std::string& piece) {
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) ranks[spec.merges[rank]] = rank;
  std::vector<std::string> symbols;
  for (const char byte : piece) symbols.push_back(spelling_of_bytes(std::string(1, byte)));
  for (;;) {
    std::size_t best = spec.merges.size();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == spec.merges.size()) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST_CASE("Merging short and long pieces, against the definition") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    const std::string letters = round % 3 == 0 ? "a" : round % 3 == 1 ? "ab" : "abcd";
    const TokenizerSpec spec = random_spec(random, letters, 1 + static_cast<int>(random() % 40));
    const Tokenizer tokenizer = make(spec);
    for (int i = 0; i < 20; ++i) {
      std::string piece(1 + random() % (i % 2 == 0 ? 40 : 160), 'a');
      for (char& c : piece) c = letters[random() % letters.size()];
      std::vector<std::string> got;
      for (const std::int32_t id : encode(tokenizer, piece)) got.push_back(spec.tokens[static_cast<std::size_t>(id)].text);
      CAPTURE(round, piece);
      REQUIRE(got == merge_by_definition(spec, piece));
    }
  }
}

std::string random_utf8(std::mt19937_64& random) {
  static const std::vector<std::string> parts{
      " ", "\n", "the", "<|im_start|>", "<|endoftext|>", "'s", "123", "e\u0301", "👩‍👩‍👧", "\r\n", "  ", "中"};
  std::string text;
  for (auto n = random() % 60; n > 0; --n) {
    const auto kind = random() % 4;
    if (kind == 0) {
      text += parts[random() % parts.size()];
      continue;
    }
    const auto limit = kind == 1 ? 0x80u : kind == 2 ? 0x3000u : 0x110000u;
    const auto c = static_cast<char32_t>(random() % limit);
    if (c < 0xd800 || c > 0xdfff) append_utf8(text, c);
  }
  return text;
}

TEST_CASE("Decoding gives the text back") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::string family : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    const TokenizerSpec spec = load_spec(family);
    const Tokenizer tokenizer = make(spec);
    // The two exceptions that tokenizer.h names: missing bytes, and NFC.
    std::vector<bool> missing(256, true);
    for (const auto& token : spec.tokens) {
      const auto bytes = bytes_of_spelling(token.text);
      if (bytes && bytes->size() == 1) missing[static_cast<unsigned char>((*bytes)[0])] = false;
    }
    CHECK(std::count(missing.begin(), missing.end(), true) == (family == "smollm" ? 21 : 0));
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_utf8(random);
      const bool parse_special = round % 2 == 0;
      std::string wanted = text;
      if (spec.normalizer == Normalizer::kNfc) {
        wanted = *to_nfc(text);
        REQUIRE(*to_nfc(wanted) == wanted);
      }
      std::erase_if(wanted, [&](char byte) { return missing[static_cast<unsigned char>(byte)]; });
      CAPTURE(family, round, text);
      const Ids ids = encode(tokenizer, text, parse_special);
      // A composition across a special token's border is no composition.
      if (spec.normalizer == Normalizer::kNfc && text.find("|>") != std::string::npos) continue;
      REQUIRE(tokenizer.decode(ids, false) == wanted);
      std::string joined;
      for (const std::int32_t id : ids) joined += tokenizer.token_bytes(id);
      REQUIRE(joined == wanted);
    }
  }
}

TEST_CASE("A megabyte without a break") {
  // Quadratic merging, matching or ordering of marks would take minutes to hours here.
  constexpr std::size_t kSize = 1'000'000;
  const auto repeat = [](const std::string& part) {
    std::string text;
    while (text.size() < kSize) text += part;
    return text;
  };
  for (const std::string family : {"smollm", "llama-bpe"}) {
    const Tokenizer tokenizer = make(load_spec(family));
    for (const std::string part : {"a", " ", "ab", "=", "1", "中文", "<|im_start", " \t"}) {
      const std::string text = repeat(part) + "x";
      CAPTURE(family, part);
      CHECK((tokenizer.decode(encode(tokenizer, text), false) == text));
    }
  }
  const Tokenizer normalizing = make(load_spec("qwen2"));
  for (const std::string part : {"\u0301\u0323", "\u0f73", "\u1100\u1161\u11a8"}) {
    const std::string text = repeat(part);
    CAPTURE(part);
    CHECK((normalizing.decode(encode(normalizing, text), false) == *to_nfc(text)));
  }
}

TEST_CASE("Four threads encode what one does") {
  const Tokenizer tokenizer = make(load_spec("smollm"));
  std::mt19937_64 random(7);
  std::vector<std::string> texts;
  std::vector<Ids> wanted;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_utf8(random));
    wanted.push_back(encode(tokenizer, texts.back()));
  }
  std::vector<int> different(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < different.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        auto ids = tokenizer.encode(texts[i], true);
        different[t] += ids.ok() && *ids == wanted[i] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(different == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace lynx::text
