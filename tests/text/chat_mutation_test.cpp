// Mutated templates and variables: whatever they are, parse and render answer.

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "text/chat_template.h"
#include "text/utf8.h"

namespace lynx::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSeed = 20261129;

/// What the language is made of, for mutations that keep some sense.
const std::vector<std::string> kPieces = {"{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "{%-",
                                          "-%}",
                                          "{#",
                                          "#}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "'",
                                          "\"",
                                          "|",
                                          ".",
                                          ",",
                                          ":",
                                          "~",
                                          "*",
                                          "**",
                                          "//",
                                          "%",
                                          "-",
                                          "not ",
                                          " in ",
                                          " is ",
                                          " if ",
                                          " else ",
                                          "loop",
                                          "loop.nextitem",
                                          "namespace(",
                                          "range(",
                                          "99999999",
                                          "-1",
                                          "1e308",
                                          "none",
                                          "messages",
                                          "d",
                                          "{% for x in messages %}",
                                          "{% endfor %}",
                                          "{% if x %}",
                                          "{% endif %}",
                                          "{% set x = x %}",
                                          "{% set ns = namespace(a=x) %}",
                                          "{% set ns.a = ns %}",
                                          "{% macro m(a) %}",
                                          "{% endmacro %}",
                                          "m(m)",
                                          "{% break %}",
                                          "|tojson",
                                          "|safe",
                                          "|list",
                                          "|map('list')",
                                          "|sort",
                                          "[::-1]",
                                          "[x:]",
                                          ".items()",
                                          ".split()",
                                          ".format(x)",
                                          "é",
                                          "\xf0\x9f\x99\x82",
                                          "\n",
                                          " ",
                                          "\xff"};

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> corpus) : rng_(seed), corpus_(std::move(corpus)) {}

  /// Pieces of the corpus joined, cut, repeated and sprinkled with tokens of the language.
  std::string next() {
    std::string text = pick(corpus_);
    for (std::size_t step = below(6); step > 0; --step) {
      change(text);
    }
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(rng_); }
  const std::string& pick(const std::vector<std::string>& texts) { return texts[below(texts.size())]; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at + 1, 20));
    switch (below(5)) {
      case 0: text.insert(at, pick(kPieces)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.replace(at, length, pick(kPieces)); break;
      default: text.insert(at, pick(corpus_)); break;
    }
  }

  std::mt19937_64 rng_;
  std::vector<std::string> corpus_;
};

TEST_CASE("Mutated templates are refused or render to UTF-8 within the bounds") {
  CAPTURE(kSeed);
  std::ifstream file("tests/goldens/chat/snippets.json");
  REQUIRE(file.good());
  const Json goldens = Json::parse(file);
  std::vector<std::string> corpus;
  for (const Json& golden : goldens["cases"]) corpus.push_back(golden["template"].get<std::string>());

  Mutator mutator(kSeed, corpus);
  int parsed_count = 0;
  int rendered_count = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string source = mutator.next();
    CAPTURE(round, source);
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) {
      CHECK((parsed.status().code() == Code::kInvalidArgument || parsed.status().code() == Code::kUnimplemented));
      continue;
    }
    ++parsed_count;
    const auto result = parsed->render(goldens["variables"]);
    if (result.ok()) {
      ++rendered_count;
      CHECK_FALSE(find_invalid_utf8(*result).has_value());
    } else {
      const Code code = result.status().code();
      CHECK((code == Code::kInvalidArgument || code == Code::kUnimplemented || code == Code::kResourceExhausted));
      CHECK_FALSE((code != Code::kInvalidArgument && result.status().message().empty()));
    }
  }
  // Most mutants must get as far as the interpreter, or the test would test the parser alone.
  CHECK(parsed_count > 4000);
  CHECK(rendered_count > 3000);
}

TEST_CASE("Every prefix of a template is refused or renders") {
  const std::string source =
      "{%- set ns = namespace(x='a', n=[1, 2.5]) -%}\n{% for m in messages if m.role != 'q' %}{{ loop.index0 ~ (m['content'] | "
      "trim)[1:-1] }}"
      "{% else %}{# none #}{% endfor %}{% macro f(a, b='\\u00e9') %}{{ {'k': a}.k or not b is string }}{% endmacro %}{{ f(1) if "
      "ns.x in 'ab' else f }}";
  const Json variables = {{"messages", {{{"role", "user"}, {"content", "héllo"}}}}};
  for (std::size_t length = 0; length <= source.size(); ++length) {
    CAPTURE(length);
    const auto parsed = ChatTemplate::parse(source.substr(0, length));
    if (parsed.ok()) CHECK(parsed->render(variables).status().code() != Code::kInternal);
  }
  CHECK(*ChatTemplate::parse(source)->render(variables) == "0éll1");
}

}  // namespace
}  // namespace lynx::text
