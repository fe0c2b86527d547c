#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace lynx::text::jinja {

namespace {

template <class Op, std::size_t N>
std::optional<Op> find_operator(const TokenStream& tokens, const std::array<std::pair<std::string_view, Op>, N>& operators) {
  for (const auto& [symbol, op] : operators) {
    if (tokens.is_operator(symbol)) {
      return op;
    }
  }
  return std::nullopt;
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxExpressionDepth) {
    TokenStream::fail_unsupported_at(parser_.tokens_.current().line,
                                     fmt::format("an expression nested deeper than {}", kMaxExpressionDepth));
  }
}

ExpressionPtr ExpressionParser::parse_expression(bool with_conditional) {
  const Level level(*this);
  return with_conditional ? parse_conditional() : parse_logic(false);
}

ExpressionPtr ExpressionParser::parse_conditional() {
  const Level level(*this);
  const int line = tokens_.current().line;
  ExpressionPtr value = parse_logic(false);
  while (tokens_.skip_name("if")) {
    ExpressionPtr condition = parse_logic(false);
    ExpressionPtr otherwise = tokens_.skip_name("else") ? parse_conditional() : nullptr;
    value = make_expression(line, ConditionalExpression{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_logic(bool is_and) {
  const int line = tokens_.current().line;
  ExpressionPtr left = is_and ? parse_not() : parse_logic(true);
  while (tokens_.skip_name(is_and ? "and" : "or")) {
    ExpressionPtr right = is_and ? parse_not() : parse_logic(true);
    left = make_expression(line, LogicExpression{is_and, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const int line = tokens_.current().line;
  if (!tokens_.skip_name("not")) {
    return parse_compare();
  }
  const Level level(*this);
  return make_expression(line, UnaryExpression{UnaryOperator::kNot, parse_not()});
}

ExpressionPtr ExpressionParser::parse_compare() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators{{{"==", Comparison::kEqual},
                                                                                      {"!=", Comparison::kNotEqual},
                                                                                      {"<", Comparison::kLess},
                                                                                      {"<=", Comparison::kLessEqual},
                                                                                      {">", Comparison::kGreater},
                                                                                      {">=", Comparison::kGreaterEqual}}};
  const int line = tokens_.current().line;
  ExpressionPtr first = parse_sum();
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
  while (true) {
    if (const auto op = find_operator(tokens_, kOperators)) {
      tokens_.next();
      rest.emplace_back(*op, parse_sum());
    } else if (tokens_.skip_name("in")) {
      rest.emplace_back(Comparison::kIn, parse_sum());
    } else if (tokens_.is_name("not") && tokens_.look_ahead().kind == Token::Kind::kName && tokens_.look_ahead().text == "in") {
      tokens_.next();
      tokens_.next();
      rest.emplace_back(Comparison::kNotIn, parse_sum());
    } else {
      break;
    }
  }
  return rest.empty() ? std::move(first) : make_expression(line, CompareExpression{std::move(first), std::move(rest)});
}

ExpressionPtr ExpressionParser::parse_sum() {
  static constexpr std::array<std::pair<std::string_view, BinaryOperator>, 2> kOperators{
      {{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}}};
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_concat();
  while (const auto op = find_operator(tokens_, kOperators)) {
    tokens_.next();
    ExpressionPtr right = parse_concat();
    left = make_expression(line, BinaryExpression{*op, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  const int line = tokens_.current().line;
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(parse_product());
  } while (tokens_.skip_operator("~"));
  return parts.size() == 1 ? std::move(parts.front()) : make_expression(line, ConcatExpression{std::move(parts)});
}

ExpressionPtr ExpressionParser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, BinaryOperator>, 4> kOperators{{{"*", BinaryOperator::kMultiply},
                                                                                          {"/", BinaryOperator::kDivide},
                                                                                          {"//", BinaryOperator::kFloorDivide},
                                                                                          {"%", BinaryOperator::kModulo}}};
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_power();
  while (const auto op = find_operator(tokens_, kOperators)) {
    tokens_.next();
    ExpressionPtr right = parse_power();
    left = make_expression(line, BinaryExpression{*op, std::move(left), std::move(right)});
  }
  return left;
}

/// Left to right, unlike Python: jinja2's grammar has it so.
ExpressionPtr ExpressionParser::parse_power() {
  const int line = tokens_.current().line;
  ExpressionPtr left = parse_unary(true);
  while (tokens_.skip_operator("**")) {
    ExpressionPtr right = parse_unary(true);
    left = make_expression(line, BinaryExpression{BinaryOperator::kPower, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  const int line = tokens_.current().line;
  ExpressionPtr node;
  if (tokens_.skip_operator("-")) {
    node = make_expression(line, UnaryExpression{UnaryOperator::kNegate, parse_unary(false)});
  } else if (tokens_.skip_operator("+")) {
    node = make_expression(line, UnaryExpression{UnaryOperator::kPositive, parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case Token::Kind::kName: return parse_name();
    case Token::Kind::kInteger: tokens_.next(); return make_expression(token.line, LiteralExpression{Value(token.integer)});
    case Token::Kind::kFloat: tokens_.next(); return make_expression(token.line, LiteralExpression{Value(token.real)});
    case Token::Kind::kString: {
      std::string text;
      while (tokens_.is(Token::Kind::kString)) {
        text += tokens_.next().text;
      }
      return make_expression(token.line, LiteralExpression{Value::text(std::move(text))});
    }
    default: break;
  }
  if (tokens_.skip_operator("(")) {
    ExpressionPtr inside = parse_tuple(true, true);
    tokens_.expect_operator(")");
    return inside;
  }
  if (tokens_.is_operator("[")) {
    return parse_list();
  }
  if (tokens_.is_operator("{")) {
    return parse_dict();
  }
  tokens_.fail_here(fmt::format("unexpected {}", describe(token)));
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token& token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return make_expression(token.line, LiteralExpression{Value(name == "true" || name == "True")});
  }
  if (name == "none" || name == "None") {
    return make_expression(token.line, LiteralExpression{Value::none()});
  }
  if (in_macro_ && (name == "varargs" || name == "kwargs" || name == "caller")) {
    TokenStream::fail_unsupported_at(token.line, fmt::format("'{}' in a macro", name));
  }
  return make_expression(token.line, NameExpression{name});
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional, bool may_be_empty) {
  const int line = tokens_.current().line;
  const auto at_end = [&] {
    return tokens_.is(Token::Kind::kVariableEnd) || tokens_.is(Token::Kind::kBlockEnd) || tokens_.is_operator(")");
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    items.push_back(parse_expression(with_conditional));
    if (!tokens_.skip_operator(",")) {
      break;
    }
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) {
    return std::move(items.front());
  }
  if (items.empty() && !may_be_empty) {
    tokens_.fail_here(fmt::format("expected an expression, got {}", describe(tokens_.current())));
  }
  return make_expression(line, ListExpression{SequenceKind::kTuple, std::move(items)});
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_operator("]")) {
    items.push_back(parse_expression());
    if (!tokens_.skip_operator(",")) {
      break;
    }
  }
  tokens_.expect_operator("]");
  return make_expression(line, ListExpression{SequenceKind::kList, std::move(items)});
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.next().line;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  while (!tokens_.is_operator("}")) {
    ExpressionPtr key = parse_expression();
    tokens_.expect_operator(":");
    entries.emplace_back(std::move(key), parse_expression());
    if (!tokens_.skip_operator(",")) {
      break;
    }
  }
  tokens_.expect_operator("}");
  return make_expression(line, DictExpression{std::move(entries)});
}

}  // namespace lynx::text::jinja
