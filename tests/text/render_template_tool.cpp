// lynx_render_template: renders chat templates for compare_templates.py. Each line of stdin is a JSON object {"template",
// "variables"}; each line of stdout {"output"} or {"error", "code"}. strftime_now prints 2024-07-26 14:05:09.

#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace {

lynx::Result<std::string> render(const nlohmann::ordered_json& request) {
  lynx::text::RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 124;
  options.now->tm_mon = 6;
  options.now->tm_mday = 26;
  options.now->tm_hour = 14;
  options.now->tm_min = 5;
  options.now->tm_sec = 9;
  options.now->tm_wday = 5;
  options.now->tm_yday = 207;
  LYNX_TRY(const lynx::text::ChatTemplate parsed, lynx::text::ChatTemplate::parse(request.at("template").get<std::string>()));
  return parsed.render(request.at("variables"), options);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::ordered_json request = nlohmann::ordered_json::parse(line, nullptr, false);
    if (request.is_discarded() || !request.is_object() || !request.contains("template") || !request.contains("variables")) {
      std::fprintf(stderr, "lynx_render_template: a line of stdin is not a JSON object with template and variables\n");
      return 1;
    }
    const auto result = render(request);
    nlohmann::ordered_json answer;
    if (result.ok()) {
      answer["output"] = *result;
    } else {
      answer["error"] = result.status().message();
      answer["code"] = lynx::code_name(result.status().code());
    }
    std::cout << answer.dump() << '\n' << std::flush;
  }
  return 0;
}
