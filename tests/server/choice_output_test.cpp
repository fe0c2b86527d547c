#include "server/choice_output.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using namespace lynx;
using namespace lynx::server;

namespace {

std::shared_ptr<const text::StopStrings> stops(const std::vector<std::string>& strings) {
  auto compiled = text::StopStrings::create(strings);
  REQUIRE(compiled.ok());
  return *compiled;
}

TokenOutput token(std::int32_t id) {
  return {.id = id, .logprob = 0, .top = {}};
}

std::vector<std::int32_t> ids(const ChoiceUpdate& update) {
  std::vector<std::int32_t> result;
  for (const TokenOutput& output : update.tokens) result.push_back(output.id);
  return result;
}

using Ids = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("a token that ends inside a character is held back with it") {
  ChoiceOutput output(nullptr, false, 0);
  output.push(token(1), "a\xc3");
  ChoiceUpdate update = output.take();
  CHECK(update.text == "a");
  CHECK(ids(update) == Ids{});
  output.push(token(2), "\xa9z");
  update = output.take();
  CHECK(update.text == "éz");
  CHECK(ids(update) == Ids{1, 2});
  CHECK(update.text_offsets == Ids{0, 1});
  output.push(token(3), "\xc3");
  CHECK_FALSE(output.has_update());
  output.finish(FinishReason::kLength);
  update = output.take();
  CHECK(update.text == "\xef\xbf\xbd");
  CHECK(ids(update) == Ids{3});
  CHECK(update.finish == FinishReason::kLength);
}

TEST_CASE("a stop string over several tokens is not leaked, and its tokens are not part of the answer") {
  ChoiceOutput output(stops({"STOP"}), false, 0);
  output.push(token(1), "xS");
  CHECK(output.take().text == "x");
  output.push(token(2), "TO");
  CHECK_FALSE(output.has_update());
  output.push(token(3), "P and more");
  CHECK(output.stopped());
  output.finish(FinishReason::kStop);
  const ChoiceUpdate update = output.take();
  CHECK(update.text.empty());
  CHECK(ids(update) == Ids{1});
  CHECK(update.finish == FinishReason::kStop);
}

TEST_CASE("what was held back for a stop string that does not come is given out") {
  ChoiceOutput output(stops({"STOP"}), false, 0);
  output.push(token(1), "ST");
  output.push(token(2), "xST");
  ChoiceUpdate update = output.take();
  CHECK(update.text == "STx");
  CHECK(ids(update) == Ids{1});
  output.finish(FinishReason::kLength);
  update = output.take();
  CHECK(update.text == "ST");
  CHECK(ids(update) == Ids{2});
}

TEST_CASE("stop strings do not count before min_tokens, nor across that border") {
  ChoiceOutput output(stops({"ab"}), false, 2);
  output.push(token(1), "ab");
  output.push(token(2), "a");
  output.push(token(3), "b");
  CHECK_FALSE(output.stopped());
  CHECK(output.take().text == "abab");
  output.push(token(4), "ab");
  CHECK(output.stopped());
  output.finish(FinishReason::kStop);
  CHECK(output.take().text.empty());
}

TEST_CASE("the stop string is part of the text when it is asked for") {
  ChoiceOutput output(stops({"END"}), true, 0);
  output.push(token(1), "1 EN");
  output.push(token(2), "D 2");
  output.finish(FinishReason::kStop);
  const ChoiceUpdate update = output.take();
  CHECK(update.text == "1 END");
  CHECK(ids(update) == Ids{1, 2});
}
