#include "text/jinja_unicode.h"

#include <algorithm>
#include <iterator>

#include <utf8proc.h>

#include "text/jinja_case_tables.h"

namespace lynx::text::jinja {

char32_t code_point_at(std::string_view text, std::size_t at) {
  return decode_utf8(text.substr(at)).code_point;
}

std::size_t code_point_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    at += code_point_length(text, at);
  }
  return at;
}

std::size_t last_code_point(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
    --start;
  }
  return start;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(code_point_at(text, at))) {
    at += code_point_length(text, at);
  }
  return at;
}

std::string_view strip_space_left(std::string_view text) {
  return text.substr(skip_space(text, 0));
}

std::string_view strip_space_right(std::string_view text) {
  while (!text.empty()) {
    const std::size_t start = last_code_point(text);
    if (!is_space(code_point_at(text, start))) {
      break;
    }
    text = text.substr(0, start);
  }
  return text;
}

namespace {

using SimpleMapping = utf8proc_int32_t (*)(utf8proc_int32_t);

template <std::size_t N>
void append_mapped(std::string& out, char32_t code_point, const CaseExpansion (&expansions)[N], SimpleMapping simple) {
  const CaseExpansion* found =
      std::lower_bound(std::begin(expansions), std::end(expansions), code_point,
                       [](const CaseExpansion& expansion, char32_t wanted) { return expansion.from < wanted; });
  if (found != std::end(expansions) && found->from == code_point) {
    out += found->to;
  } else {
    append_utf8(out, static_cast<char32_t>(simple(static_cast<utf8proc_int32_t>(code_point))));
  }
}

bool is_cased(char32_t code_point) {
  const auto number = static_cast<utf8proc_int32_t>(code_point);
  const utf8proc_category_t category = utf8proc_category(number);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
         utf8proc_toupper(number) != utf8proc_tolower(number);
}

void append_title(std::string& out, char32_t code_point) {
  append_mapped(out, code_point, kTitleExpansions, utf8proc_totitle);
}

void append_lower(std::string& out, std::string_view text, std::size_t at, bool after_cased) {
  constexpr char32_t kCapitalSigma = 0x3A3;
  const char32_t code_point = code_point_at(text, at);
  if (code_point == kCapitalSigma) {
    const std::size_t next = at + code_point_length(text, at);
    const bool ends_word = after_cased && (next >= text.size() || !is_cased(code_point_at(text, next)));
    append_utf8(out, ends_word ? 0x3C2 : 0x3C3);
    return;
  }
  append_mapped(out, code_point, kLowerExpansions, utf8proc_tolower);
}

/// Calls append(out, at, whether the code point before is a letter with case) for each code point.
template <class Append>
std::string map_code_points(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  bool after_cased = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_length(text, at)) {
    append(out, at, after_cased);
    after_cased = is_cased(code_point_at(text, at));
  }
  return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
  return map_code_points(text, [&](std::string& out, std::size_t at, bool) {
    append_mapped(out, code_point_at(text, at), kUpperExpansions, utf8proc_toupper);
  });
}

std::string to_lower(std::string_view text) {
  return map_code_points(text,
                         [&](std::string& out, std::size_t at, bool after_cased) { append_lower(out, text, at, after_cased); });
}

std::string capitalize(std::string_view text) {
  return map_code_points(text, [&](std::string& out, std::size_t at, bool after_cased) {
    if (at == 0) {
      append_title(out, code_point_at(text, at));
    } else {
      append_lower(out, text, at, after_cased);
    }
  });
}

std::string to_title(std::string_view text) {
  return map_code_points(text, [&](std::string& out, std::size_t at, bool after_cased) {
    if (after_cased) {
      append_lower(out, text, at, after_cased);
    } else {
      append_title(out, code_point_at(text, at));
    }
  });
}

bool is_printable(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += code_point_length(text, at)) {
    const char32_t code_point = code_point_at(text, at);
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
      case UTF8PROC_CATEGORY_CN:
      case UTF8PROC_CATEGORY_CC:
      case UTF8PROC_CATEGORY_CF:
      case UTF8PROC_CATEGORY_CS:
      case UTF8PROC_CATEGORY_CO:
      case UTF8PROC_CATEGORY_ZL:
      case UTF8PROC_CATEGORY_ZP: return false;
      case UTF8PROC_CATEGORY_ZS:
        if (code_point != ' ') {
          return false;
        }
        break;
      default: break;
    }
  }
  return true;
}

}  // namespace lynx::text::jinja
