#include "server/inference_response.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_byte_tokenizer.h"
#include "text/utf8.h"

namespace lynx::server {

TEST_CASE("a delta carries scores only when they were asked for") {
  const text::Tokenizer tokenizer = testing::byte_tokenizer();
  const float infinite = -std::numeric_limits<float>::infinity();
  const ChoicePart part{
      .index = 3,
      .text = "ab",
      .tokens = {{.id = 'a', .logprob = infinite, .top = {{'a', -0.5F}, {0xC3, infinite}}}, {.id = 'b', .logprob = 0, .top = {}}},
      .text_offsets = {7, 8},
      .finish = FinishReason::kLength,
      .unscored_tokens = 0};
  v1::ChoiceDelta plain;
  fill_choice(part, false, tokenizer, &plain);
  CHECK(plain.index() == 3);
  CHECK(plain.text() == "ab");
  CHECK(plain.finish_reason() == v1::FINISH_REASON_LENGTH);
  REQUIRE(plain.tokens_size() == 2);
  CHECK(plain.tokens(1).id() == 'b');
  CHECK_FALSE(plain.tokens(0).has_logprob());
  CHECK(plain.tokens(0).piece().empty());

  v1::ChoiceDelta scored;
  fill_choice(part, true, tokenizer, &scored);
  CHECK(scored.tokens(0).logprob() == -9999.0F);
  CHECK(scored.tokens(0).piece() == "a");
  CHECK(scored.tokens(1).text_offset() == 8);
  REQUIRE(scored.tokens(0).top_logprobs_size() == 2);
  CHECK(scored.tokens(0).top_logprobs(1).logprob() == -9999.0F);
  CHECK(scored.tokens(0).top_logprobs(1).piece() == "\xC3");
}

TEST_CASE("a long echo is cut into small messages that give it back") {
  const text::Tokenizer tokenizer = testing::byte_tokenizer();
  GenerationPlan plan;
  plan.with_logprobs = true;
  plan.choices_per_prompt = 2;
  std::string text;
  std::vector<TokenOutput> tokens;
  for (int i = 0; i < 200'000; ++i) text += i % 5 == 0 ? "🦊" : "ä";
  for (const char c : text) {
    const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(c));
    tokens.push_back({.id = id, .logprob = -1.0F, .top = {{id, -1.0F}, {1, -2.0F}}});
  }
  plan.prompts.push_back({.tokens = {}, .text = text});
  std::vector<std::string> texts(2);
  std::vector<std::vector<std::int32_t>> ids(2);
  for (const v1::GenerateResponse& message : echo_messages(plan, tokens, tokenizer)) {
    CHECK(message.ByteSizeLong() < std::size_t{1} << 20);
    REQUIRE(message.choices_size() == 1);
    const v1::ChoiceDelta& choice = message.choices(0);
    CHECK_FALSE(text::find_invalid_utf8(choice.text()));
    const auto index = static_cast<std::size_t>(choice.index());
    texts[index] += choice.text();
    for (const v1::Token& token : choice.tokens()) {
      CHECK(token.has_logprob() == !ids[index].empty());  // Nothing comes before the first one.
      ids[index].push_back(token.id());
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(texts[i] == text);
    CHECK(ids[i].size() == tokens.size());
  }
}

TEST_CASE("broken UTF-8 is repaired, sound text is left alone") {
  CHECK(valid_utf8("grüße 🦊") == "grüße 🦊");
  CHECK(valid_utf8("a\xFFz") == "a\uFFFDz");
  CHECK(valid_utf8("cut \xF0\x9F") == "cut \uFFFD");
  CHECK(valid_utf8("") == "");
}

}  // namespace lynx::server
