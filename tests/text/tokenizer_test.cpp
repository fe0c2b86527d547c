#include "text/tokenizer.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "text/byte_alphabet.h"

namespace lynx::text {
namespace {

using Kind = TokenizerSpec::TokenKind;
using Ids = std::vector<std::int32_t>;

/// All bytes (ids 0…255), "ab" (256), "<c>" control (257), "<u>" user-defined (258), an unused id (259), a token no text becomes
/// (260).
TokenizerSpec small_spec() {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back({.text = spelling_of_bytes(std::string(1, static_cast<char>(byte)))});
  spec.tokens.push_back({.text = "ab"});
  spec.tokens.push_back({.text = "<c>", .kind = Kind::kControl});
  spec.tokens.push_back({.text = "<u>", .kind = Kind::kUserDefined});
  spec.tokens.push_back({.text = "[PAD]", .kind = Kind::kUnused});
  spec.tokens.push_back({.text = "一 b"});
  spec.merges.emplace_back("a", "b");
  spec.bos = 257;
  spec.eos = 258;
  spec.add_bos = true;
  return spec;
}

std::string refusal(const TokenizerSpec& spec) {
  const auto tokenizer = Tokenizer::create(spec);
  REQUIRE_FALSE(tokenizer.ok());
  CHECK(tokenizer.status().code() == Code::kInvalidArgument);
  return tokenizer.status().message();
}

TEST_CASE("What a tokenizer says of its tokens") {
  const auto tokenizer = Tokenizer::create(small_spec());
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->vocabulary() == 261);
  CHECK(tokenizer->bos() == 257);
  CHECK(tokenizer->eos() == 258);
  CHECK(tokenizer->add_bos());
  CHECK(tokenizer->token_bytes(' ') == " ");
  CHECK(tokenizer->token_bytes(0xff) == "\xff");
  CHECK(tokenizer->token_bytes(256) == "ab");
  CHECK(tokenizer->token_bytes(257) == "<c>");
  CHECK(tokenizer->token_bytes(258) == "<u>");
  CHECK(tokenizer->token_bytes(259).empty());
  CHECK(tokenizer->token_bytes(260) == "一 b");
  for (const std::int32_t id : {-1, 261, 1 << 30, -(1 << 30)}) {
    CHECK(tokenizer->token_bytes(id).empty());
    CHECK_FALSE(tokenizer->is_control(id));
  }
  CHECK(tokenizer->is_control(257));
  CHECK_FALSE(tokenizer->is_control(258));
  CHECK(tokenizer->decode(Ids{257, 'x', 256, 258, 259, -5}, false) == "<c>xab<u>");
  CHECK(tokenizer->decode(Ids{257, 'x', 256, 258, 259, -5}, true) == "xab<u>");
}

TEST_CASE("Control tokens are text unless asked for; user-defined ones never are") {
  const auto tokenizer = Tokenizer::create(small_spec());
  REQUIRE(tokenizer.ok());
  CHECK(*tokenizer->encode("ab<c>", true) == Ids{256, 257});
  CHECK(*tokenizer->encode("ab<c>", false) == Ids{256, '<', 'c', '>'});
  CHECK(*tokenizer->encode("<u>[PAD]", false) == Ids{258, '[', 'P', 'A', 'D', ']'});
  CHECK(tokenizer->encode("", true)->empty());
}

TEST_CASE("Invalid UTF-8 is refused with its place") {
  const auto tokenizer = Tokenizer::create(small_spec());
  REQUIRE(tokenizer.ok());
  for (const auto& [text, where] : {std::pair{"\xff", "0"}, {"abc\xc3", "3"}, {"é\xed\xa0\x80", "2"}, {"<c>\x80", "3"}}) {
    const auto ids = tokenizer->encode(text, true);
    REQUIRE_FALSE(ids.ok());
    CHECK(ids.status().code() == Code::kInvalidArgument);
    CHECK(ids.status().message() == std::string("invalid UTF-8 at byte ") + where);
  }
}

TEST_CASE("A byte without a token is left out, and its neighbours meet") {
  TokenizerSpec spec = small_spec();
  spec.tokens['x'] = {.text = "[x]", .kind = Kind::kUnused};
  const auto tokenizer = Tokenizer::create(spec);
  REQUIRE(tokenizer.ok());
  CHECK(*tokenizer->encode("axb", true) == Ids{256});
  CHECK(tokenizer->encode("xxx", true)->empty());
}

TEST_CASE("ignore_merges takes a piece that is a token as a whole") {
  TokenizerSpec spec = small_spec();
  spec.pre_tokenizer = PreTokenizer::kLlama3;
  spec.tokens.push_back({.text = "abc"});
  CHECK(*Tokenizer::create(spec)->encode("abc", true) == Ids{256, 'c'});
  spec.ignore_merges = true;
  CHECK(*Tokenizer::create(spec)->encode("abc", true) == Ids{261});
  CHECK(*Tokenizer::create(spec)->encode("abcab", true) == Ids{256, 'c', 256});
}

TEST_CASE("Of two tokens with the same text the later one counts") {
  TokenizerSpec spec = small_spec();
  spec.tokens.push_back({.text = "ab"});
  CHECK(*Tokenizer::create(spec)->encode("ab", true) == Ids{261});
}

TEST_CASE("A broken vocabulary is refused by name") {
  CHECK(refusal({}) == "the vocabulary is empty");
  TokenizerSpec spec = small_spec();
  spec.merges.emplace_back("ab", "q!");
  CHECK(refusal(spec) == "merge 1 (\"ab\" \"q!\"): \"q!\" is not a token");
  spec.merges[1] = {"b", "a"};
  CHECK(refusal(spec) == "merge 1 (\"b\" \"a\"): \"ba\" is not a token");
  spec.merges[1] = {"<c", ">"};
  CHECK(refusal(spec) == "merge 1 (\"<c\" \">\"): \"<c\" is not a token");
  spec.merges[1] = {"", "a"};
  CHECK(refusal(spec) == "merge 1 (\"\" \"a\"): \"\" is not a token");
  spec = small_spec();
  spec.bos = 261;
  CHECK(refusal(spec) == "bos token id 261 is outside the vocabulary of 261");
  spec.bos = -2;
  CHECK(refusal(spec) == "bos token id -2 is outside the vocabulary of 261");
  spec = small_spec();
  spec.tokens[257].text = std::string(2000, '<');
  CHECK(refusal(spec) == "token 257: 2000 bytes are too long for a special token");
  spec.tokens[257].text = "<\xff>";
  CHECK(refusal(spec) == "token 257: a special token that is not UTF-8");
}

}  // namespace
}  // namespace lynx::text
