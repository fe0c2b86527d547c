// Snippets of templates, each with what jinja2 makes of it (tests/goldens/make_chat_goldens.py).

#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "text/chat_template.h"

namespace lynx::text {
namespace {

using Json = nlohmann::ordered_json;

/// The time that jinja_reference.py takes for now.
RenderOptions fixed_time() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 14;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 5;
  now.tm_yday = 207;
  return {now};
}

Result<std::string> parse_and_render(const std::string& source, const Json& variables) {
  LYNX_TRY(const ChatTemplate parsed, ChatTemplate::parse(source));
  return parsed.render(variables, fixed_time());
}

/// Ours without "chat template: line N: ".
std::string bare_message(const Status& status) {
  const std::string& message = status.message();
  if (message.rfind("chat template: ", 0) != 0) return message;
  const std::size_t line_end = message.find(": ", message.find("line "));
  return message.substr(line_end + 2);
}

TEST_CASE("Snippets render as jinja2 renders them, and fail where it fails") {
  std::ifstream file("tests/goldens/chat/snippets.json");
  REQUIRE(file.good());
  const Json goldens = Json::parse(file);
  REQUIRE(goldens["cases"].size() > 300);
  std::set<std::string> groups;
  for (const Json& golden : goldens["cases"]) {
    const auto source = golden["template"].get<std::string>();
    CAPTURE(source);
    groups.insert(golden["group"].get<std::string>());
    const auto result = parse_and_render(source, goldens["variables"]);
    INFO(result.status().to_string());
    REQUIRE(result.ok() == golden.contains("output"));
    if (result.ok()) {
      CHECK(*result == golden["output"].get<std::string>());
      continue;
    }
    CHECK(result.status().code() == Code::kInvalidArgument);
    if (golden["error"].is_string()) {
      CHECK(bare_message(result.status()) == golden["error"].get<std::string>());
    }
  }
  CHECK(groups.size() == 13);
}

}  // namespace
}  // namespace lynx::text
