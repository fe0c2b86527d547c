#include "text/jinja_text_parts.h"

#include <limits>

#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

std::string_view strip_text(std::string_view text, const std::string* characters, bool left, bool right) {
  if (characters == nullptr) {
    text = left ? strip_space_left(text) : text;
    return right ? strip_space_right(text) : text;
  }
  const auto in_set = [&](std::string_view code_point) { return find_bytes(*characters, code_point) != std::string_view::npos; };
  std::size_t begin = 0;
  while (left && begin < text.size() && in_set(text.substr(begin, code_point_length(text, begin)))) {
    begin += code_point_length(text, begin);
  }
  std::size_t end = text.size();
  while (right && end > begin) {
    const std::size_t start = last_code_point(text.substr(0, end));
    if (!in_set(text.substr(start, end - start))) {
      break;
    }
    end = start;
  }
  return text.substr(begin, end - begin);
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to, std::int64_t count, Budget& budget) {
  std::string out;
  std::size_t at = 0;
  std::int64_t left = count < 0 ? std::numeric_limits<std::int64_t>::max() : count;
  for (; left > 0; --left) {
    budget.charge_bytes(to.size());
    const std::size_t found = find_bytes(text, from, at);
    if (found == std::string_view::npos) {
      break;
    }
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
    if (from.empty()) {
      // An empty text is found before every code point and at the end.
      if (at == text.size()) {
        break;
      }
      const std::size_t length = code_point_length(text, at);
      out += text.substr(at, length);
      at += length;
    }
  }
  out += text.substr(at);
  budget.charge_bytes(text.size());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends, Budget& budget) {
  std::vector<std::string_view> lines;
  const auto add = [&](std::string_view line) {
    budget.charge_items(1);
    lines.push_back(line);
  };
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = code_point_length(text, at);
    const char32_t c = code_point_at(text, at);
    const bool ends_line = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    std::size_t next = at + length;
    if (ends_line) {
      next += c == '\r' && next < text.size() && text[next] == '\n' ? 1 : 0;
      add(text.substr(line_start, (keep_ends ? next : at) - line_start));
      line_start = next;
    }
    at = next;
  }
  if (line_start < text.size()) {
    add(text.substr(line_start));
  }
  return lines;
}

std::vector<std::string_view> split_at_spaces(std::string_view text, std::int64_t limit, Budget& budget) {
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view part) {
    budget.charge_items(1);
    parts.push_back(part);
  };
  std::size_t at = skip_space(text, 0);
  while (at < text.size()) {
    if (static_cast<std::int64_t>(parts.size()) == limit) {
      add(text.substr(at));
      break;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(code_point_at(text, end))) {
      end += code_point_length(text, end);
    }
    add(text.substr(at, end - at));
    at = skip_space(text, end);
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t limit, Budget& budget) {
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view part) {
    budget.charge_items(1);
    parts.push_back(part);
  };
  std::size_t at = 0;
  while (static_cast<std::int64_t>(parts.size()) != limit) {
    const std::size_t found = find_bytes(text, separator, at);
    if (found == std::string_view::npos) {
      break;
    }
    add(text.substr(at, found - at));
    at = found + separator.size();
  }
  add(text.substr(at));
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator, std::int64_t limit,
                                               Budget& budget) {
  std::vector<std::string_view> parts = split_at(text, separator, -1, budget);
  if (limit >= 0 && static_cast<std::int64_t>(parts.size()) > limit + 1) {
    // The parts lie one after the other in `text`: all but the last `limit` become one again.
    const auto joined = parts.size() - static_cast<std::size_t>(limit);
    const char* end = parts[joined - 1].data() + parts[joined - 1].size();
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(joined - 1));
    parts.front() = std::string_view(text.data(), static_cast<std::size_t>(end - text.data()));
  }
  return parts;
}

}  // namespace lynx::text::jinja
