#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "text/jinja_error.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// \r\n and \r become \n; one newline at the very end goes.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r') {
      out.push_back('\n');
      at += at + 1 < source.size() && source[at + 1] == '\n' ? 1 : 0;
    } else {
      out.push_back(source[at]);
    }
  }
  if (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag();
      if (tag == std::string::npos) {
        push_data(rest());
        at_ = source_.size();
        break;
      }
      read_tag(tag);
    }
    push(Token::Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  enum class TagKind { kVariable, kBlock, kComment };

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().substr(0, text.size()) == text; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail_here(const std::string& message) const { fail("line {}: {}", line_, message); }

  Token& push(Token::Kind kind) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    return token;
  }

  /// Moves on, counting lines.
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void push_data(std::string_view text) {
    if (!text.empty()) {
      push(Token::Kind::kData).text = text;
    }
  }

  std::size_t find_tag() const {
    for (std::size_t found = source_.find('{', at_); found != std::string::npos; found = source_.find('{', found + 1)) {
      const char next = found + 1 < source_.size() ? source_[found + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') {
        return found;
      }
    }
    return std::string::npos;
  }

  /// The text before a tag as the tag leaves it: '-' strips all white space; else white space alone on the line goes
  /// (lstrip_blocks).
  std::string_view text_before_tag(std::size_t tag, char sign, TagKind kind) const {
    std::string_view text = rest().substr(0, tag - at_);
    if (sign == '-') {
      return strip_space_right(text);
    }
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const bool strips = sign != '+' && kind != TagKind::kVariable && (line > 0 || line_starting_);
    return strips && skip_space(text, line) == text.size() ? text.substr(0, line) : text;
  }

  void read_tag(std::size_t tag) {
    const char opener = source_[tag + 1];
    const TagKind kind = opener == '{' ? TagKind::kVariable : opener == '%' ? TagKind::kBlock : TagKind::kComment;
    const char sign = tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : '\0';
    push_data(text_before_tag(tag, sign, kind));
    advance(tag - at_ + 2 + (sign == '\0' ? 0 : 1));
    if (kind == TagKind::kComment) {
      skip_comment();
    } else if (kind == TagKind::kBlock && skip_raw_begin()) {
      read_raw();
    } else {
      read_code(kind);
    }
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) {
      fail_here("Missing end of comment tag");
    }
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end - at_ + 2);
    after_block_end(sign);
  }

  /// What a block or comment end swallows: '-' all white space, '+' nothing, else one newline (trim_blocks).
  void after_block_end(char sign) {
    if (sign == '-') {
      advance(skip_space(source_, at_) - at_);
    } else if (sign != '+' && peek() == '\n') {
      advance(1);
    }
  }

  /// After "{%": consumes " raw %}" if that is what follows.
  bool skip_raw_begin() {
    std::size_t end = skip_space(source_, at_);
    if (source_.compare(end, 3, "raw") != 0) {
      return false;
    }
    end = skip_space(source_, end + 3);
    const bool strips = source_.compare(end, 3, "-%}") == 0;
    if (!strips && source_.compare(end, 2, "%}") != 0) {
      return false;
    }
    advance(end - at_ + (strips ? 3 : 2));
    if (strips) {
      after_block_end('-');
    }
    return true;
  }

  void read_raw() {
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : '\0';
      std::size_t end = skip_space(source_, tag + 2 + (sign == '\0' ? 0 : 1));
      if (source_.compare(end, 6, "endraw") != 0) {
        continue;
      }
      end = skip_space(source_, end + 6);
      const char end_sign = end < source_.size() && (source_[end] == '-' || source_[end] == '+') ? source_[end] : '\0';
      end += end_sign == '\0' ? 0 : 1;
      if (source_.compare(end, 2, "%}") == 0) {
        push_data(text_before_tag(tag, sign, TagKind::kBlock));
        advance(end - at_ + 2);
        after_block_end(end_sign);
        return;
      }
    }
    fail_here("Missing end of raw directive");
  }

  /// Tokens up to the end of a variable or a block. An end inside brackets is no end: {{ {'a': {}} }}.
  void read_code(TagKind kind) {
    push(kind == TagKind::kVariable ? Token::Kind::kVariableBegin : Token::Kind::kBlockBegin);
    std::string brackets;
    while (at_ < source_.size()) {
      if (brackets.empty() && read_code_end(kind)) {
        return;
      }
      const std::size_t spaces = skip_space(source_, at_) - at_;
      if (spaces > 0) {
        advance(spaces);
      } else if (is_digit(peek())) {
        read_number();
      } else if (is_name_char(peek())) {
        read_name();
      } else if (peek() == '\'' || peek() == '"') {
        read_string();
      } else {
        read_operator(brackets);
      }
    }
  }

  bool read_code_end(TagKind kind) {
    const bool variable = kind == TagKind::kVariable;
    const char sign = peek() == '-' || (peek() == '+' && !variable) ? peek() : '\0';
    const std::size_t start = sign == '\0' ? 0 : 1;
    if (rest().substr(start, 2) != (variable ? "}}" : "%}")) {
      return false;
    }
    push(variable ? Token::Kind::kVariableEnd : Token::Kind::kBlockEnd);
    advance(start + 2);
    if (!variable || sign == '-') {
      after_block_end(sign);
    }
    return true;
  }

  /// Digits with single underscores between them, from `from` on; its end.
  std::size_t digits_end(std::size_t from) const {
    std::size_t end = from;
    while (end < source_.size() && (is_digit(source_[end]) || (source_[end] == '_' && end > from && source_[end - 1] != '_' &&
                                                               end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
    return end;
  }

  void read_number() {
    if (peek() == '0' && std::string_view("bBoOxX").find(peek(1)) != std::string_view::npos && peek(1) != '\0') {
      fail_here("integers in base 2, 8 or 16 are not supported");
    }
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    const std::size_t whole = digits_end(at_);
    std::size_t end = whole;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_end(end + 1);
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const std::size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      const std::size_t exponent = digits_end(end + 1 + sign);
      end = exponent > end + 1 + sign ? exponent : end;
    }
    const bool is_float = end > whole && !after_dot;
    std::string digits = source_.substr(at_, (is_float ? end : whole) - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    if (is_float) {
      push(Token::Kind::kFloat).real = std::strtod(digits.c_str(), nullptr);
    } else {
      std::int64_t value = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc() ||
          (digits.size() > 1 && digits[0] == '0' && value != 0)) {
        fail_here(fmt::format("the integer {} is not valid or does not fit 64 bits", digits));
      }
      push(Token::Kind::kInteger).integer = value;
    }
    advance((is_float ? end : whole) - at_);
  }

  void read_name() {
    std::size_t end = at_;
    while (end < source_.size() && is_name_char(source_[end])) {
      ++end;
    }
    push(Token::Kind::kName).text = source_.substr(at_, end - at_);
    advance(end - at_);
  }

  void read_string() {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
      fail_here("a string is not closed");
    }
    std::string value = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    push(Token::Kind::kString).text = std::move(value);
    advance(end + 1 - at_);
  }

  void read_operator(std::string& brackets) {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    const auto* found = std::find_if(std::begin(kDouble), std::end(kDouble), [&](std::string_view op) { return sees(op); });
    const std::size_t length = found != std::end(kDouble) ? 2 : 1;
    const char c = peek();
    if (length == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail_here(fmt::format("unexpected char '{}'", rest().substr(0, code_point_length(source_, at_))));
    }
    if (c == '(' || c == '[' || c == '{') {
      brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) {
        fail_here(fmt::format("unexpected '{}'", c));
      }
      brackets.pop_back();
    }
    push(Token::Kind::kOperator).text = source_.substr(at_, length);
    advance(length);
  }

  std::string unescape(std::string_view text) const;
  std::size_t append_escape(std::string& out, std::string_view text, std::size_t at) const;
  void append_code_point(std::string& out, std::string_view digits, std::size_t wanted, int base) const;

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

void Lexer::append_code_point(std::string& out, std::string_view digits, std::size_t wanted, int base) const {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.size() != wanted || error != std::errc() || end != digits.data() + digits.size() || value > 0x10FFFF ||
      (value >= 0xD800 && value < 0xE000)) {
    fail_here("an escape in a string is cut short or names no character");
  }
  append_utf8(out, value);
}

/// Resolves the escape whose letter is at `at`; returns where the text goes on.
std::size_t Lexer::append_escape(std::string& out, std::string_view text, std::size_t at) const {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[at];
  if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
    out.push_back(kMeanings[known]);
    return at + 1;
  }
  if (c == '\n') {
    return at + 1;
  }
  if (c == 'x' || c == 'u' || c == 'U') {
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    append_code_point(out, text.substr(at + 1, digits), digits, 16);
    return at + 1 + digits;
  }
  if (c == 'N') {
    fail_here("the escape \\N{…} is not supported");
  }
  if (c >= '0' && c <= '7') {
    std::size_t end = at;
    while (end < text.size() && end < at + 3 && text[end] >= '0' && text[end] <= '7') {
      ++end;
    }
    append_code_point(out, text.substr(at, end - at), end - at, 8);
    return end;
  }
  out.push_back('\\');
  return at;
}

std::string Lexer::unescape(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      at = append_escape(out, text, at + 1);
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const auto offset = find_invalid_utf8(source)) {
    fail("the template is not valid UTF-8 at byte {}", *offset);
  }
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace lynx::text::jinja
