#include "text/stop_matcher.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "text/utf8.h"

namespace lynx::text {
namespace {

StopMatcher matcher_of(const std::vector<std::string>& stops, bool include = false) {
  auto compiled = StopStrings::create(stops);
  REQUIRE(compiled.ok());
  return StopMatcher(*compiled, include);
}

/// By the definition: the first byte at which some stop string is complete; there the one that begins first.
struct Expected {
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
};

Expected search(const std::string& text, const std::vector<std::string>& stops) {
  Expected best;
  for (const std::string& stop : stops) {
    const std::size_t begin = text.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < best.end || (end == best.end && begin < best.begin)) best = {begin, end};
  }
  return best;
}

/// The longest suffix that is a proper prefix of a stop string.
std::size_t held_by_definition(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t held = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
      if (text.ends_with(stop.substr(0, size))) held = std::max(held, size);
    }
  }
  return held;
}

std::string random_text(std::mt19937_64& random, std::size_t longest, unsigned letters) {
  std::string text(random() % (longest + 1), 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % letters);
  return text;
}

TEST_CASE("Random texts, stops and splits against a plain search") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    const unsigned letters = 1 + static_cast<unsigned>(random() % 3);
    std::vector<std::string> stops;
    for (auto n = random() % 5; n > 0; --n) stops.push_back(random_text(random, 6, letters) + "a");
    const std::string text = random_text(random, 40, letters);
    const bool include = random() % 2 == 0;
    const Expected expected = search(text, stops);
    CAPTURE(round, stops, text, include);

    StopMatcher matcher = matcher_of(stops, include);
    std::string released;
    std::optional<int> stop;
    std::size_t fed = 0;
    while (fed < text.size()) {
      const StopMatcher saved = matcher;
      static_cast<void>(matcher.feed(random_text(random, 8, letters)));  // A draft that is rolled back.
      matcher = saved;
      const std::string piece = text.substr(fed, 1 + random() % 5);
      auto output = matcher.feed(piece);
      released += output.text;
      fed += piece.size();
      REQUIRE(matcher.stopped() == (expected.end <= fed));
      REQUIRE(output.stop.has_value() == (matcher.stopped() && !stop));
      if (output.stop) stop = output.stop;
      if (!matcher.stopped()) {
        REQUIRE(matcher.held_bytes() == held_by_definition(text.substr(0, fed), stops));
        REQUIRE(released.size() + matcher.held_bytes() == fed);
      }
    }
    released += matcher.flush();
    if (expected.end == std::string::npos) {
      REQUIRE(released == text);
      REQUIRE_FALSE(stop);
    } else {
      REQUIRE(released == text.substr(0, include ? expected.end : expected.begin));
      REQUIRE(stops[static_cast<std::size_t>(*stop)].size() == expected.end - expected.begin);
    }
    REQUIRE(matcher.released_code_points() == count_code_points(released));
  }
}

TEST_CASE("Stops, by example") {
  SECTION("held back until it is no stop") {
    StopMatcher matcher = matcher_of({"\n\nUser:"});
    CHECK(matcher.feed("Hi\n").text == "Hi");
    CHECK(matcher.feed("\nUs").text.empty());
    CHECK(matcher.held_bytes() == 4);
    CHECK(matcher.feed("es").text == "\n\nUses");
    CHECK(matcher.feed("\n\nUser: x").stop == 0);
    CHECK(matcher.feed("more").text.empty());
    CHECK(matcher.flush().empty());
  }
  SECTION("the one that is complete first wins, whatever the order of the list") {
    StopMatcher matcher = matcher_of({"abcd", "bc"});
    const auto output = matcher.feed("xabcd");
    CHECK(output.text == "xa");
    CHECK(output.stop == 1);
  }
  SECTION("complete at the same byte: the one that begins first") {
    StopMatcher matcher = matcher_of({"c", "abc", "bc"});
    const auto output = matcher.feed("xabc");
    CHECK(output.text == "x");
    CHECK(output.stop == 1);
  }
  SECTION("equal ones: the first is reported") {
    CHECK(matcher_of({"b", "a", "a"}).feed("a").stop == 1);
  }
  SECTION("code points stay whole") {
    StopMatcher matcher = matcher_of({"日本"}, true);
    CHECK(matcher.feed("é日").text == "é");
    CHECK(matcher.released_code_points() == 1);
    CHECK(matcher.feed("本語").text == "日本");
    CHECK(matcher.released_code_points() == 3);
  }
  SECTION("without stops nothing is held back") {
    CHECK(matcher_of({}).feed("text").text == "text");
    StopMatcher none(nullptr);
    CHECK(none.feed("text").text == "text");
    CHECK(none.released_code_points() == 4);
  }
}

TEST_CASE("An empty stop string is refused") {
  const std::vector<std::string> stops{"a", ""};
  const auto compiled = StopStrings::create(stops);
  REQUIRE_FALSE(compiled.ok());
  CHECK(compiled.status().code() == Code::kInvalidArgument);
  CHECK(compiled.status().message() == "stop string 1 is empty");
}

TEST_CASE("A long stop string that keeps almost matching takes linear time") {
  const std::string run(200000, 'a');
  StopMatcher matcher = matcher_of({run + "b"});
  std::string released;
  for (int i = 0; i < 10; ++i) released += matcher.feed(run).text;
  released += matcher.flush();
  CHECK(released.size() == 10 * run.size());
}

}  // namespace
}  // namespace lynx::text
