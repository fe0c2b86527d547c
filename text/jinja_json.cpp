#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/jinja_format.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

void append_json_escape(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    default: out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

void append_ascii(std::string& out, char32_t code_point) {
  auto number = static_cast<std::uint32_t>(code_point);
  if (number >= 0x10000) {
    number -= 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (number >> 10), 0xDC00 + (number & 0x3FF));
  } else {
    out += fmt::format("\\u{:04x}", number);
  }
}

std::string quote_json(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t length = byte < 0x80 ? 1 : code_point_length(text, at);
    if (byte < 0x20 || c == '"' || c == '\\') {
      append_json_escape(out, c);
    } else if (ensure_ascii && byte >= 0x7F && !(byte == 0x7F)) {
      append_ascii(out, code_point_at(text, at));
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  out.push_back('"');
  return out;
}

std::string json_float(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  return format_float(value);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  std::string take() { return std::move(out_); }

  void write(const Value& value, int indent) {
    const Budget::Level level(budget_);
    budget_.charge_steps(1);
    if (const Text* text = value.as_text()) {
      append(quote_json(text->bytes, style_.ensure_ascii));
    } else if (value.is_none()) {
      append("null");
    } else if (const bool* flag = value.as<bool>()) {
      append(*flag ? "true" : "false");
    } else if (value.is_integer()) {
      append(std::to_string(value.integer()));
    } else if (const double* number = value.as<double>()) {
      append(json_float(*number));
    } else if (const Sequence* sequence = value.as_sequence(); sequence != nullptr && is_json_array(*sequence)) {
      write_array(*sequence, indent);
    } else if (const Dict* dict = value.as_dict()) {
      write_object(*dict, indent);
    } else {
      fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

 private:
  static bool is_json_array(const Sequence& sequence) {
    return sequence.kind == SequenceKind::kList || sequence.kind == SequenceKind::kTuple;
  }

  void append(std::string_view text) {
    budget_.charge_bytes(text.size());
    out_ += text;
  }

  void new_line(int indent) {
    if (style_.pretty) {
      append("\n");
      for (int level = 0; level < indent; ++level) {
        append(style_.indent);
      }
    }
  }

  void write_array(const Sequence& array, int indent) {
    if (array.items.empty()) {
      append("[]");
      return;
    }
    append("[");
    bool first = true;
    for (const Value& item : array.items) {
      append(first ? "" : style_.item_separator);
      first = false;
      new_line(indent + 1);
      write(item, indent + 1);
    }
    new_line(indent);
    append("]");
  }

  static std::string key_text(const Value& key) {
    if (const Text* text = key.as_text()) {
      return text->bytes;
    }
    if (const double* number = key.as<double>()) {
      return json_float(*number);
    }
    if (const bool* flag = key.as<bool>()) {
      return *flag ? "true" : "false";
    }
    if (key.is_integer()) {
      return std::to_string(key.integer());
    }
    if (key.is_none()) {
      return "null";
    }
    fail("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  void write_object(const Dict& object, int indent) {
    if (object.entries.empty()) {
      append("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : object.entries) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    }
    append("{");
    bool first = true;
    for (const auto* entry : entries) {
      append(first ? "" : style_.item_separator);
      first = false;
      new_line(indent + 1);
      append(quote_json(key_text(entry->first), style_.ensure_ascii) + style_.key_separator);
      write(entry->second, indent + 1);
    }
    new_line(indent);
    append("}");
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace lynx::text::jinja
