#pragma once

// Values as text: Python's str(), repr(), str % and str.format, and the tojson filter.

#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace lynx::text::jinja {

struct Arguments;

/// str(value): what {{ value }} prints. Functions and loops, which print as memory addresses in Python, are UNIMPLEMENTED.
std::string to_text(const Value& value, Budget& budget);
/// Python's repr(), as lists show their items.
std::string repr(const Value& value, Budget& budget);
std::string quote_python(std::string_view text);
/// Shortest text that reads back as the same number: 1.0, 1e+16, inf.
std::string format_float(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool pretty = false;  ///< One item a line, indented by `indent` a level.
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps(value, …).
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

/// & < > " ' as HTML entities.
std::string escape_html(std::string_view text);

/// format % values: %s, %r, %d and %%; the rest of the format language is UNIMPLEMENTED.
std::string format_percent(std::string_view format, const Value& values, Budget& budget);
/// format.format(…): {}, {0}, {name}; specifications after ':' or '!' and members are UNIMPLEMENTED.
std::string format_braces(std::string_view format, const Arguments& arguments, Budget& budget);

}  // namespace lynx::text::jinja
