// Templates and conversations made to take time or memory end within the bounds.

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "text/chat_template.h"

namespace lynx::text {
namespace {

using Json = nlohmann::ordered_json;

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

TEST_CASE("Renders that would grow or run without end are stopped") {
  const std::string ten_deep = repeated("{% for a in range(1000) %}", 10) + "x" + repeated("{% endfor %}", 10);
  const std::vector<std::string> sources = {
      "{{ 'a' * 10**9 }}",
      "{{ 'a' * 10**18 }}",
      "{{ [1] * 10**9 }}",
      "{{ 10**9 * (1, 2) }}",
      "{{ ('ab' * 1000000).replace('', 'x' * 1000) }}",
      "{{ 'a'.center(10**12) }}",
      "{{ 'a'.zfill(10**12) }}",
      "{{ 'a' | indent(10**12, true) }}",
      "{{ ('\n' * 100000) | indent(100000, true, true) }}",
      "{{ [1] | tojson(indent=10**12) }}",
      "{{ ('x' * 1000000).join('y' * 1000) }}",
      "{{ range(100000) | map('string') | map('center', 10000) | join }}",
      "{% set ns = namespace(s='x') %}{% for i in range(100000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(100000) %}{% set ns.s = ns.s ~ 'yyyyyyyyyyyyyyyy' %}{% endfor %}",
      "{% set ns = namespace(s=[]) %}{% for i in range(1000) %}{% set ns.s = [ns.s] %}{% endfor %}",
      "{% set ns = namespace(s={}) %}{% for i in range(1000) %}{% set ns.s = {'a': ns.s} %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
      "{% endfor %}{{ ns.a == ns.b }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
      "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
      ten_deep,
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
      "{% set x %}{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}{% endset %}",
      "{{ range(100000) | unique | list | length }}",
      "{% set big = 'a' * 5000000 %}{% for i in range(100000) %}{{ 'b' in big }}{% endfor %}",
      "{% set big = 'a' * 5000000 %}{% for i in range(100000) %}{{ big.split('b') | length }}{% endfor %}",
      "{% set big = 'a' * 5000000 %}{% for i in range(100000) %}{{ big[::-1] | length }}{% endfor %}",
      "{% set big = 'a' * 3000000 %}{{ big.rfind('a' * 1500000 ~ 'b') }}",
      "{{ ('a' * 30000000) | list | length }}",
      "{{ ('a ' * 30000000).split() | length }}",
      "{{ ('aa' * 10000000).upper() | upper | lower | title | capitalize }}"};
  for (const std::string& source : sources) {
    CAPTURE(source.substr(0, 120));
    const auto parsed = ChatTemplate::parse(source);
    INFO(parsed.status().to_string());
    REQUIRE(parsed.ok());
    const auto result = parsed->render(Json::object());
    INFO(result.status().to_string());
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code() == Code::kResourceExhausted);
  }
}

TEST_CASE("Results that do not fit are errors, not wrapped numbers") {
  for (const char* source :
       {"{{ 10**30 }}", "{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 4611686018427387904 * 2 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}", "{{ 1e300 | int }}",
        "{{ '99999999999999999999' | int }}", "{{ range(10**9) }}", "{{ 10.0 ** 400 }}"}) {
    CAPTURE(source);
    const auto parsed = ChatTemplate::parse(source);
    REQUIRE(parsed.ok());
    CHECK(parsed->render(Json::object()).status().code() == Code::kInvalidArgument);
  }
  CHECK(*ChatTemplate::parse(
             "{{ (-9223372036854775807 - 1) % -1 }}{{ 'abc'[-9223372036854775807:9223372036854775807:9223372036854775807] }}")
             ->render(Json::object()) == "0a");
}

TEST_CASE("Deeply nested templates are refused at parse") {
  const int many = 20000;
  for (const std::string& source :
       {"{{ " + repeated("(", many) + "1" + repeated(")", many) + " }}", "{{ " + repeated("[", many) + repeated("]", many) + " }}",
        "{{ " + repeated("{1:", many) + "1" + repeated("}", many) + " }}", "{{ " + repeated("not ", many) + "1 }}",
        "{{ " + repeated("-", many) + "1 }}", "{{ 1" + repeated(" + 1", many) + " }}",
        "{{ 1" + repeated(" if 1 else 1", many) + " }}", "{{ x" + repeated(".x", many) + " }}",
        "{{ x" + repeated("[0]", many) + " }}", "{{ x" + repeated("()", many) + " }}", "{{ x" + repeated("|trim", many) + " }}",
        "{{ 1" + repeated(" and 1", many) + " }}", "{{ x" + repeated(" is defined", many) + " }}",
        "{{ " + repeated("f(", many) + repeated(")", many) + " }}", "{{ 2" + repeated(" ** 2", many) + " }}",
        repeated("{% if 1 %}", many) + repeated("{% endif %}", many),
        repeated("{% for x in y %}", many) + repeated("{% endfor %}", many),
        "{% set " + repeated("(", many) + "x" + repeated(")", many) + " = 1 %}",
        repeated("{% set x %}", many) + repeated("{% endset %}", many)}) {
    CAPTURE(source.substr(0, 40));
    const auto parsed = ChatTemplate::parse(source);
    REQUIRE_FALSE(parsed.ok());
    INFO(parsed.status().message());
    CHECK((parsed.status().code() == Code::kUnimplemented || parsed.status().code() == Code::kInvalidArgument));
  }
  CHECK(ChatTemplate::parse(std::string((1U << 20) + 1, 'x')).status().code() == Code::kResourceExhausted);
}

TEST_CASE("Long conversations and deep but sane templates stay far below the bounds") {
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] | trim }}{% if not loop.last %}\n{% endif %}{% endfor %}"
      "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ m.role[0] %}{% endfor %}{{ ns.all | length "
      "}}");
  REQUIRE(chat.ok());
  Json messages = Json::array();
  for (int i = 0; i < 5000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(1000, 'x')}});
  messages.push_back({{"role", "user"}, {"content", std::string(8'000'000, 'y')}});
  const auto result = chat->render({{"messages", messages}});
  INFO(result.status().to_string());
  REQUIRE(result.ok());
  CHECK(result->size() > 13'000'000);

  const std::string sum = "{{ 1" + repeated(" + 1", 120) + " }}";
  CHECK(*ChatTemplate::parse(sum)->render(Json::object()) == "121");
  const std::string blocks = repeated("{% if 1 %}{% for x in [1] %}", 25) + "z" + repeated("{% endfor %}{% endif %}", 25);
  CHECK(*ChatTemplate::parse(blocks)->render(Json::object()) == "z");
  const auto recursion =
      ChatTemplate::parse("{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}");
  CHECK(recursion->render(Json::object()).ok());
}

}  // namespace
}  // namespace lynx::text
