#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "text/chat_template.h"

namespace lynx::text {
namespace {

using Json = nlohmann::ordered_json;

ChatTemplate parse_ok(std::string_view source) {
  auto parsed = ChatTemplate::parse(source);
  INFO(parsed.status().to_string());
  REQUIRE(parsed.ok());
  return *std::move(parsed);
}

Status render_error(std::string_view source, const Json& variables = Json::object()) {
  const auto result = parse_ok(source).render(variables);
  CAPTURE(source);
  REQUIRE_FALSE(result.ok());
  return result.status();
}

TEST_CASE("Constructs we lack are refused at parse, by line and name") {
  struct Refused {
    const char* source;
    const char* construct;
  };
  const std::vector<Refused> cases = {{"{% include 'x' %}", "the tag 'include'"},
                                      {"{% extends 'x' %}", "the tag 'extends'"},
                                      {"{% block x %}{% endblock %}", "the tag 'block'"},
                                      {"{% import 'x' as y %}", "the tag 'import'"},
                                      {"{% from 'x' import y %}", "the tag 'from'"},
                                      {"{% with a = 1 %}{% endwith %}", "the tag 'with'"},
                                      {"{% call f() %}{% endcall %}", "the tag 'call'"},
                                      {"{% autoescape true %}{% endautoescape %}", "the tag 'autoescape'"},
                                      {"{% print 1 %}", "the tag 'print'"},
                                      {"{% for x in y recursive %}{% endfor %}", "a recursive loop"},
                                      {"{% for x in y %}{{ loop(x) }}{% endfor %}", "a recursive loop"},
                                      {"{% for x in y %}{{ loop.cycle(1, 2) }}{% endfor %}", "the method 'cycle'"},
                                      {"{% for x in y %}{% macro m() %}{% endmacro %}{% endfor %}", "a macro inside a loop"},
                                      {"{% macro m() %}{{ varargs }}{% endmacro %}", "'varargs' in a macro"},
                                      {"{% macro m() %}{{ caller() }}{% endmacro %}", "'caller' in a macro"},
                                      {"{{ x | wordwrap }}", "the filter 'wordwrap'"},
                                      {"{{ x | from_json }}", "the filter 'from_json'"},
                                      {"{% filter nope %}{% endfilter %}", "the filter 'nope'"},
                                      {"{{ x is escaped }}", "the test 'escaped'"},
                                      {"{{ x.encode('utf-8') }}", "the method 'encode'"},
                                      {"{{ x.isdigit() }}", "the method 'isdigit'"},
                                      {"{{ cycler(1, 2) }}", "the function 'cycler'"},
                                      {"{{ f(*x) }}", "a call with *arguments"},
                                      {"{{ f(**x) }}", "a call with **arguments"},
                                      {"{{ x[1:2, 3] }}", "a slice among several keys"}};
  for (const Refused& refused : cases) {
    CAPTURE(refused.source);
    const auto parsed = ChatTemplate::parse(std::string("a\nb\n") + refused.source);
    REQUIRE_FALSE(parsed.ok());
    INFO(parsed.status().message());
    CHECK(parsed.status().code() == Code::kUnimplemented);
    CHECK(parsed.status().message().find(std::string("chat template: line 3: ") + refused.construct) == 0);
    CHECK(parsed.status().message().find("is not supported") != std::string::npos);
  }
}

TEST_CASE("A syntax error names its line") {
  const auto parsed = ChatTemplate::parse("x\n{% if a %}\n{{ 1 + }}\n{% endif %}");
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == Code::kInvalidArgument);
  CHECK(parsed.status().message() == "chat template: line 3: unexpected '}}'");
  CHECK(ChatTemplate::parse("\n\n{% for x in y %}").status().message() ==
        "chat template: line 3: unexpected end of template, looking for the tag 'else'");
}

TEST_CASE("Run-time errors name the line; raise_exception's text comes through unchanged") {
  CHECK(render_error("a\n{{ x.y }}").message() == "chat template: line 2: 'x' is undefined");
  CHECK(render_error("a\n\n{% for m in [1] %}\n{{ m + 'x' }}{% endfor %}").message() ==
        "chat template: line 4: unsupported operand type(s) for +: 'int' and 'str'");
  const Status raised = render_error("\n{{ raise_exception('Roles must alternate: ' ~ 5) }}");
  CHECK(raised.code() == Code::kInvalidArgument);
  CHECK(raised.message() == "Roles must alternate: 5");
}

TEST_CASE("What only shows at run time is refused then") {
  for (const char* source : {"{{ range }}", "{{ 'a'.upper }}", "{{ x | map('upper') }}", "{% for y in [1] %}{{ loop }}{% endfor %}",
                             "{{ '{:>3}'.format(1) }}", "{{ '%5d' % 1 }}", "{{ x | map('wordwrap') | list }}",
                             "{{ x | select('escaped') | list }}", "{{ (1).real }}"}) {
    CHECK(render_error(source, {{"x", {"a"}}}).code() == Code::kUnimplemented);
  }
}

TEST_CASE("Input is checked: an object, UTF-8, integers of 64 bits, bounded nesting") {
  const ChatTemplate shows = parse_ok("{{ x }}");
  CHECK(*shows.render({{"x", 9223372036854775807LL}}) == "9223372036854775807");
  CHECK(shows.render({{"x", 9223372036854775808ULL}}).status().code() == Code::kInvalidArgument);
  CHECK(shows.render({{"x", "\xff"}}).status().code() == Code::kInvalidArgument);
  CHECK(shows.render({{"\xc3", 1}}).status().code() == Code::kInvalidArgument);
  CHECK(shows.render(Json::array({1})).status().code() == Code::kInvalidArgument);
  CHECK(ChatTemplate::parse("a\xff").status().code() == Code::kInvalidArgument);
  Json deep = 1;
  for (int level = 0; level < 90; ++level) deep = Json::array({deep});
  CHECK(shows.render({{"x", deep}}).ok());
  for (int level = 0; level < 90; ++level) deep = Json::array({deep});
  CHECK(shows.render({{"x", deep}}).status().code() == Code::kResourceExhausted);
}

TEST_CASE("A request's variables come before the functions of the same name, and do not survive a render") {
  const ChatTemplate sets = parse_ok("{{ range }}{{ y is defined }}{% set y = range %}{{ y }}");
  CHECK(*sets.render({{"range", 5}}) == "5False5");
  CHECK(*sets.render({{"range", 6}}) == "6False6");
}

TEST_CASE("strftime_now prints the local time when none is given") {
  const ChatTemplate prints = parse_ok("{{ strftime_now('%Y-%m-%d') }}");
  const auto today = [] {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[16];
    std::strftime(text, sizeof(text), "%Y-%m-%d", &local);
    return std::string(text);
  };
  // The second try is for a midnight between the two readings of the clock.
  CHECK((*prints.render(Json::object()) == today() || *prints.render(Json::object()) == today()));
}

TEST_CASE("Threads render one template at once") {
  const ChatTemplate chat = parse_ok(
      "{% macro m(x) %}<{{ x | upper }}>{% endmacro %}{% set ns = namespace(n=0) %}"
      "{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ m.role }}{{ m.content | tojson }}{% endfor %}{{ ns.n }}{{ m('é') }}");
  const auto conversation = [](int count) {
    Json messages = Json::array();
    for (int i = 0; i < count; ++i) messages.push_back({{"role", "user"}, {"content", std::to_string(i)}});
    return Json{{"messages", messages}};
  };
  std::vector<std::string> expected;
  for (int count = 0; count < 4; ++count) expected.push_back(*chat.render(conversation(count)));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const auto index = static_cast<std::size_t>(thread);
      for (int round = 0; round < 200; ++round) {
        const auto result = chat.render(conversation(thread));
        wrong[index] += !result.ok() || *result != expected[index] ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace lynx::text
