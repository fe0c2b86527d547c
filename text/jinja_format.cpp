#include "text/jinja_format.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "text/jinja_arguments.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

std::string format_float(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  // Shortest digits as d.ddde±xx, then laid out as Python does: scientific below 1e-4 and from 1e16 on.
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t split = scientific.find('e');
  const int exponent = std::atoi(std::string(scientific.substr(split + 1)).c_str());
  const bool negative = scientific.front() == '-';
  std::string digits;
  for (const char c : scientific.substr(0, split)) {
    if (c >= '0' && c <= '9') {
      digits.push_back(c);
    }
  }
  const auto count = static_cast<int>(digits.size());
  std::string text;
  if (exponent < -4 || exponent >= 16) {
    text = digits.substr(0, 1);
    text += count > 1 ? "." : "";
    text += digits.substr(1);
    text += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    text = fmt::format("0.{}{}", std::string(static_cast<std::size_t>(-exponent - 1), '0'), digits);
  } else if (count <= exponent + 1) {
    text = digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    const auto whole = static_cast<std::size_t>(exponent + 1);
    text = digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return negative ? fmt::format("-{}", text) : text;
}

namespace {

void append_escaped(std::string& out, std::string_view code_point_bytes, char32_t code_point) {
  switch (code_point) {
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\\': out += "\\\\"; return;
    default: break;
  }
  const auto number = static_cast<std::uint32_t>(code_point);
  if ((number >= 0x20 && number < 0x7F) || (number >= 0x80 && is_printable(code_point_bytes))) {
    out += code_point_bytes;
  } else if (number <= 0xFF) {
    out += fmt::format("\\x{:02x}", number);
  } else if (number <= 0xFFFF) {
    out += fmt::format("\\u{:04x}", number);
  } else {
    out += fmt::format("\\U{:08x}", number);
  }
}

}  // namespace

std::string quote_python(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  const bool plain = is_printable(text) && text.find('\\') == std::string_view::npos && !(has_single && has_double);
  if (plain) {
    out += text;
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = code_point_length(text, at);
      if (text[at] == quote) {
        out.push_back('\\');
        out.push_back(quote);
      } else {
        append_escaped(out, text.substr(at, length), code_point_at(text, at));
      }
      at += length;
    }
  }
  out.push_back(quote);
  return out;
}

namespace {

/// Appends reprs; one object per call of repr(), so that nested values share its buffer.
class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  std::string take() { return std::move(out_); }

  void print(const Value& value) {
    const Budget::Level level(budget_);
    budget_.charge_steps(1);
    value.visit([this](const auto& data) { this->print_data(data); });
  }

 private:
  void append(std::string_view text) {
    budget_.charge_bytes(text.size());
    out_ += text;
  }

  void print_data(const Undefined&) { append("Undefined"); }
  void print_data(None) { append("None"); }
  void print_data(bool value) { append(value ? "True" : "False"); }
  void print_data(std::int64_t value) { append(std::to_string(value)); }
  void print_data(double value) { append(format_float(value)); }

  void print_data(const std::shared_ptr<const Text>& text) {
    const std::string quoted = quote_python(text->bytes);
    append(text->safe ? fmt::format("Markup({})", quoted) : quoted);
  }

  void print_data(const std::shared_ptr<const Sequence>& sequence) {
    switch (sequence->kind) {
      case SequenceKind::kList: return print_items(*sequence, "[", "]");
      case SequenceKind::kTuple: return print_items(*sequence, "(", sequence->items.size() == 1 ? ",)" : ")");
      case SequenceKind::kDictKeys: return print_items(*sequence, "dict_keys([", "])");
      case SequenceKind::kDictValues: return print_items(*sequence, "dict_values([", "])");
      case SequenceKind::kDictItems: return print_items(*sequence, "dict_items([", "])");
      case SequenceKind::kRange: return print_range(*sequence);
      case SequenceKind::kGenerator: fail_unsupported("printing a generator (its text is a memory address); use `list`; this");
    }
  }

  void print_items(const Sequence& sequence, std::string_view open, std::string_view close) {
    append(open);
    bool first = true;
    for (const Value& item : sequence.items) {
      append(first ? "" : ", ");
      first = false;
      print(item);
    }
    append(close);
  }

  /// The bounds as they were written are not kept; only the usual form from 0 or with a step of 1 can be told from the items.
  void print_range(const Sequence& sequence) {
    const auto& items = sequence.items;
    const std::int64_t step = items.size() < 2 ? 1 : items[1].integer() - items[0].integer();
    if (step != 1) {
      fail_unsupported("printing a range with a step");
    }
    const std::int64_t first = items.empty() ? 0 : items.front().integer();
    append(fmt::format("range({}, {})", first, first + static_cast<std::int64_t>(items.size())));
  }

  void print_data(const std::shared_ptr<const Dict>& dict) {
    append("{");
    bool first = true;
    for (const auto& [key, value] : dict->entries) {
      append(first ? "" : ", ");
      first = false;
      print(key);
      append(": ");
      print(value);
    }
    append("}");
  }

  void print_data(Namespace* space) {
    append("<Namespace {");
    bool first = true;
    for (const auto& [name, value] : space->attributes) {
      append((first ? "" : ", ") + quote_python(name) + ": ");
      first = false;
      print(value);
    }
    append("}>");
  }

  void print_data(const std::shared_ptr<Loop>&) { fail_unsupported("printing the loop variable"); }
  void print_data(const std::shared_ptr<const Function>& function) { fail_unsupported("printing the function {}", function->name); }

  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string repr(const Value& value, Budget& budget) {
  Printer printer(budget);
  printer.print(value);
  return printer.take();
}

std::string to_text(const Value& value, Budget& budget) {
  if (const Text* text = value.as_text()) {
    budget.charge_reading(text->bytes.size());
    return text->bytes;
  }
  return value.is_undefined() ? std::string() : repr(value, budget);
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

namespace {

void append_percent_value(std::string& out, char conversion, const Value& value, Budget& budget) {
  if (conversion == 's') {
    out += to_text(value, budget);
  } else if (conversion == 'r') {
    out += repr(value, budget);
  } else if (conversion == 'd' && value.is_integer()) {
    out += std::to_string(value.integer());
  } else if (conversion == 'd') {
    fail("%d format: a real number is required, not {}", type_name(value));
  } else {
    fail_unsupported("the format %{}", conversion);
  }
}

}  // namespace

std::string format_percent(std::string_view format, const Value& values, Budget& budget) {
  const Sequence* sequence = values.as_sequence();
  const bool is_tuple = sequence != nullptr && sequence->kind == SequenceKind::kTuple;
  const std::size_t count = is_tuple ? sequence->items.size() : 1;
  std::size_t next = 0;
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    if (++at == format.size()) {
      fail("incomplete format");
    }
    if (format[at] == '%') {
      out.push_back('%');
      continue;
    }
    if (next == count) {
      fail("not enough arguments for format string");
    }
    append_percent_value(out, format[at], is_tuple ? sequence->items[next] : values, budget);
    ++next;
  }
  // Python takes everything with members but a tuple or a text for a mapping, which may hold more than the format asks for.
  const bool mapping = values.as_dict() != nullptr || values.is_undefined() || (sequence != nullptr && !is_tuple);
  if (next < count && !mapping) {
    fail("not all arguments converted during string formatting");
  }
  return out;
}

std::string format_braces(std::string_view format, const Arguments& arguments, Budget& budget) {
  std::string out;
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    const bool doubled = at + 1 < format.size() && format[at + 1] == c;
    if ((c != '{' && c != '}') || doubled) {
      out.push_back(c);
      at += c == '{' || c == '}' ? 1 : 0;
      continue;
    }
    const std::size_t close = format.find('}', at);
    if (c == '}' || close == std::string_view::npos) {
      fail("Single '{}' encountered in format string", c);
    }
    const std::string_view field = format.substr(at + 1, close - at - 1);
    if (field.find_first_of(":!.[{") != std::string_view::npos) {
      fail_unsupported("the format field {{{}}}", field);
    }
    out += to_text(arguments.field(field.empty() ? std::to_string(automatic++) : std::string(field)), budget);
    at = close;
  }
  return out;
}

}  // namespace lynx::text::jinja
