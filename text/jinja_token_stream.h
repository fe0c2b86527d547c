#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_lexer.h"

namespace lynx::text::jinja {

/// The parser's place in the tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look_ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  /// The current token; moves past it, but not past the end.
  const Token& next();

  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool is_name(std::string_view name) const { return is(Token::Kind::kName) && current().text == name; }
  bool is_operator(std::string_view op) const { return is(Token::Kind::kOperator) && current().text == op; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);

  const Token& expect(Token::Kind kind, std::string_view what);
  void expect_operator(std::string_view op);

  /// INVALID_ARGUMENT with the current line.
  [[noreturn]] void fail_here(const std::string& message) const;
  /// UNIMPLEMENTED with the line: "line 3: what is not supported".
  [[noreturn]] static void fail_unsupported_at(int line, const std::string& what);

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// A token as messages show it.
std::string describe(const Token& token);

}  // namespace lynx::text::jinja
