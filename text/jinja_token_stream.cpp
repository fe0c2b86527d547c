#include "text/jinja_token_stream.h"

#include <fmt/format.h>

#include "text/jinja_error.h"

namespace lynx::text::jinja {

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kData: return "text";
    case Token::Kind::kVariableBegin: return "'{{'";
    case Token::Kind::kVariableEnd: return "'}}'";
    case Token::Kind::kBlockBegin: return "'{%'";
    case Token::Kind::kBlockEnd: return "'%}'";
    case Token::Kind::kString: return "a string";
    case Token::Kind::kInteger: return "an integer";
    case Token::Kind::kFloat: return "a float";
    case Token::Kind::kEnd: return "the end of the template";
    case Token::Kind::kName:
    case Token::Kind::kOperator: break;
  }
  return fmt::format("'{}'", token.text);
}

const Token& TokenStream::next() {
  const Token& token = tokens_[at_];
  at_ += at_ + 1 < tokens_.size() ? 1 : 0;
  return token;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool found = is_name(name);
  at_ += found ? 1 : 0;
  return found;
}

bool TokenStream::skip_operator(std::string_view op) {
  const bool found = is_operator(op);
  at_ += found ? 1 : 0;
  return found;
}

const Token& TokenStream::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) {
    fail_here(fmt::format("expected {}, got {}", what, describe(current())));
  }
  return next();
}

void TokenStream::expect_operator(std::string_view op) {
  if (!skip_operator(op)) {
    fail_here(fmt::format("expected '{}', got {}", op, describe(current())));
  }
}

void TokenStream::fail_here(const std::string& message) const {
  fail("line {}: {}", current().line, message);
}

void TokenStream::fail_unsupported_at(int line, const std::string& what) {
  fail_unsupported("line {}: {}", line, what);
}

}  // namespace lynx::text::jinja
