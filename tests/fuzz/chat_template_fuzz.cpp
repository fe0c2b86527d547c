// libFuzzer: the input up to a line of "---" is a template, the rest the JSON of its variables. Whatever both are, parse and render
// answer within their bounds, and what is rendered is UTF-8.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "text/chat_template.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kMark = "\n---\n";
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t split = input.find(kMark);
  const auto parsed = lynx::text::ChatTemplate::parse(input.substr(0, split));
  if (!parsed.ok()) return 0;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  if (split != std::string_view::npos) {
    variables = nlohmann::ordered_json::parse(input.substr(split + kMark.size()), nullptr, false);
  }
  if (variables.is_discarded()) return 0;
  const auto rendered = parsed->render(variables);
  if (rendered.ok() && lynx::text::find_invalid_utf8(*rendered).has_value()) std::abort();
  if (!rendered.ok() && rendered.status().code() == lynx::Code::kInternal) std::abort();
  return 0;
}
