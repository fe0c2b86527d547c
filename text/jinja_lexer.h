#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lynx::text::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kData,           ///< Text outside of tags, white space control and newline trimming applied.
    kVariableBegin,  ///< {{
    kVariableEnd,
    kBlockBegin,  ///< {%
    kBlockEnd,
    kName,
    kString,  ///< `text` is its value, escapes resolved.
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::int64_t integer = 0;
  double real = 0.0;
  int line = 1;
};

/// Cuts a template as jinja2 does with trim_blocks and lstrip_blocks. Comments are gone. The last token is kEnd. Throws Error
/// naming the line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace lynx::text::jinja
