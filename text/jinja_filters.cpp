#include "text/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_text_parts.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

bool is_safe(const Value& value) {
  return value.is_text() && value.as_text()->safe;
}

/// A method of str on soft_str(value): what jinja2's text filters are.
template <const char* Name>
Value text_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Value text = Value::text(to_text(subject, budget), is_safe(subject));
  return call_method(text, Name, arguments, budget);
}

constexpr char kUpper[] = "upper";
constexpr char kLower[] = "lower";
constexpr char kCapitalize[] = "capitalize";
constexpr char kStrip[] = "strip";
constexpr char kCenter[] = "center";

/// Unlike str.title(), this takes only white space and -({[< for the borders of words.
Value title_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("title", arguments, {}, 0);
  const std::string text = to_text(subject, budget);
  const auto is_border = [](char32_t c) { return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'; };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && !is_border(code_point_at(text, end))) {
      end += code_point_length(text, end);
    }
    if (end > at) {
      const std::string_view word = std::string_view(text).substr(at, end - at);
      const std::size_t initial = code_point_length(word, 0);
      out += to_upper(word.substr(0, initial));
      out += to_lower(word.substr(initial));
    } else {
      end += code_point_length(text, end);
      out += text.substr(at, end - at);
    }
    at = end;
  }
  return make_text(std::move(out), budget);
}

Value string_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("string", arguments, {}, 0);
  return subject.is_text() ? subject : make_text(to_text(subject, budget), budget);
}

Value safe_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("safe", arguments, {}, 0);
  return make_text(to_text(subject, budget), budget, true);
}

Value escape_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("escape", arguments, {}, 0);
  return is_safe(subject) ? subject : make_text(escape_html(to_text(subject, budget)), budget, true);
}

Value replace_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::string text = to_text(subject, budget);
  return Value::text(
      replace_text(text, to_text(bound[0], budget), to_text(bound[1], budget), bound.integer(2).value_or(-1), budget));
}

Value format_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  if (!arguments.named.empty() || is_safe(subject)) {
    fail_unsupported("the filter 'format' with named arguments or on text marked as safe");
  }
  const Value values = make_sequence(SequenceKind::kTuple, arguments.positional, budget);
  return make_text(format_percent(to_text(subject, budget), values, budget), budget);
}

Value indent_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("indent", arguments, {"width", "first", "blank"}, 0);
  if (!subject.is_text()) {
    require_defined(subject);
    fail("unsupported operand type(s) for +=: '{}' and 'str'", type_name(subject));
  }
  std::string indention;
  if (bound.has(0) && bound[0].is_text()) {
    indention = *bound.text(0);
  } else {
    const std::int64_t width = std::max<std::int64_t>(bound.integer(0).value_or(4), 0);
    budget.charge_bytes(static_cast<std::size_t>(width));
    indention.assign(static_cast<std::size_t>(width), ' ');
  }
  std::string out = bound.truthy(1) ? indention : "";
  bool first = true;
  const std::string text = subject.as_text()->bytes + "\n";
  for (const std::string_view line : split_lines(text, false, budget)) {
    budget.charge_bytes(line.size() + indention.size());
    if (!first) {
      out += "\n";
      out += line.empty() && !bound.truthy(2) ? "" : indention;
    }
    first = false;
    out += line;
  }
  return Value::text(std::move(out), is_safe(subject));
}

Value tojson_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ensure_ascii = bound.truthy(0);
  style.sort_keys = bound.truthy(3);
  if (bound.has(1) && !bound[1].is_none()) {
    style.pretty = true;
    style.item_separator.assign(1, ',');
    if (bound[1].is_text()) {
      style.indent = *bound.text(1);
    } else {
      const std::int64_t width = std::max<std::int64_t>(bound.integer(1).value_or(0), 0);
      budget.charge_bytes(static_cast<std::size_t>(width));
      style.indent.assign(static_cast<std::size_t>(width), ' ');
    }
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const std::vector<Value> separators = iterate(bound[2], budget);
    if (separators.size() != 2 || !separators[0].is_text() || !separators[1].is_text()) {
      fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].as_text()->bytes;
    style.key_separator = separators[1].as_text()->bytes;
  }
  return Value::text(to_json(subject, style, budget));
}

Value default_filter(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound bound("default", arguments, {"default_value", "boolean"}, 0);
  if (subject.is_undefined() || (bound.truthy(1) && !subject.truthy())) {
    return bound.has(0) ? bound[0] : Value::text("");
  }
  return subject;
}

Value length_filter(const Value& subject, const Arguments& arguments, Budget& budget) {
  const Bound none("length", arguments, {}, 0);
  return Value(length(subject, budget));
}

Value abs_filter(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound none("abs", arguments, {}, 0);
  require_defined(subject);
  if (!subject.is_number()) {
    fail("bad operand type for abs(): '{}'", type_name(subject));
  }
  return subject.real() < 0 || std::signbit(subject.real()) ? negate(subject) : positive(subject);
}

/// float(text) or nothing, as Python reads numbers: white space around, _ between digits.
std::optional<double> parse_float(std::string_view text) {
  std::string digits;
  const std::string_view stripped = strip_text(text, nullptr, true, true);
  for (std::size_t at = 0; at < stripped.size(); ++at) {
    const auto is_digit = [&](std::size_t index) {
      return index < stripped.size() && stripped[index] >= '0' && stripped[index] <= '9';
    };
    if (stripped[at] != '_' || at == 0 || !is_digit(at - 1) || !is_digit(at + 1)) {
      digits.push_back(stripped[at]);
    }
  }
  const bool plus = digits.size() > 1 && digits[0] == '+' && digits[1] != '-';
  const char* begin = digits.data() + (plus ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), value);
  const bool whole = end == digits.data() + digits.size() && end != begin && end[-1] != ')';
  if (!whole || error == std::errc::invalid_argument) {
    return std::nullopt;
  }
  // from_chars does not say whether it was too large or too small; strtod does.
  return error == std::errc() ? value : std::strtod(begin, nullptr);
}

std::optional<std::int64_t> truncate(double value) {
  constexpr double kLimit = 9223372036854775808.0;
  if (!std::isfinite(value)) {
    return std::nullopt;
  }
  if (value >= kLimit || value < -kLimit) {
    fail("an integer result does not fit 64 bits");
  }
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::string_view digits = strip_text(text, nullptr, true, true);
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') {
    digits.remove_prefix(1);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) {
    fail("an integer result does not fit 64 bits");
  }
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional<std::int64_t>(value) : std::nullopt;
}

Value int_filter(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound bound("int", arguments, {"default", "base"}, 0);
  require_defined(subject);
  if (bound.integer(1).value_or(10) != 10) {
    fail_unsupported("the filter 'int' with a base other than 10");
  }
  std::optional<std::int64_t> result;
  if (subject.is_integer()) {
    result = subject.integer();
  } else if (const double* number = subject.as<double>()) {
    result = truncate(*number);
  } else if (const Text* text = subject.as_text()) {
    result = parse_integer(text->bytes);
    if (!result.has_value()) {
      const std::optional<double> real = parse_float(text->bytes);
      result = real.has_value() ? truncate(*real) : std::nullopt;
    }
  }
  return result.has_value() ? Value(*result) : bound.has(0) ? bound[0] : Value(0);
}

Value float_filter(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound bound("float", arguments, {"default"}, 0);
  require_defined(subject);
  std::optional<double> result;
  if (subject.is_number()) {
    result = subject.real();
  } else if (const Text* text = subject.as_text()) {
    result = parse_float(text->bytes);
  }
  return result.has_value() ? Value(*result) : bound.has(0) ? bound[0] : Value(0.0);
}

Value round_filter(const Value& subject, const Arguments& arguments, Budget&) {
  const Bound bound("round", arguments, {"precision", "method"}, 0);
  const std::string* given = bound.text(1);
  const std::string method = given == nullptr ? "common" : *given;
  const std::int64_t precision = bound.integer(0).value_or(0);
  require_defined(subject);
  if (!subject.is_number() || (method != "common" && method != "ceil" && method != "floor")) {
    fail("{}", subject.is_number() ? "method must be common, ceil or floor"
                                   : fmt::format("type {} doesn't define __round__ method", type_name(subject)));
  }
  if (precision < 0 || precision > 300) {
    fail_unsupported("the filter 'round' with a precision below 0 or above 300");
  }
  if (method == "common") {
    if (subject.is_integer()) {
      return positive(subject);
    }
    // printf rounds the exact value to nearest even, as Python's round() does.
    char buffer[700];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), subject.real());
    return Value(std::strtod(buffer, nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(subject.real() * scale) : std::floor(subject.real() * scale)) / scale);
}

constexpr FilterEntry kFilters[] = {{"abs", abs_filter},
                                    {"capitalize", text_filter<kCapitalize>},
                                    {"center", text_filter<kCenter>},
                                    {"count", length_filter},
                                    {"d", default_filter},
                                    {"default", default_filter},
                                    {"e", escape_filter},
                                    {"escape", escape_filter},
                                    {"float", float_filter},
                                    {"format", format_filter},
                                    {"indent", indent_filter},
                                    {"int", int_filter},
                                    {"length", length_filter},
                                    {"lower", text_filter<kLower>},
                                    {"replace", replace_filter},
                                    {"round", round_filter},
                                    {"safe", safe_filter},
                                    {"string", string_filter},
                                    {"title", title_filter},
                                    {"tojson", tojson_filter},
                                    {"trim", text_filter<kStrip>},
                                    {"upper", text_filter<kUpper>}};

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(kFilters) ? find_sequence_filter(name) : found;
}

}  // namespace lynx::text::jinja
