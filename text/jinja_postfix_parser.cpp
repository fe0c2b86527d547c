// What may follow an operand: .name, [item], (call), | filter, is test.

#include <fmt/format.h>

#include "text/jinja_expression_parser.h"
#include "text/jinja_methods.h"

namespace lynx::text::jinja {

namespace {

/// Refuses calls that we know at once to be beyond us.
void check_callee(const Expression& callee, int line) {
  const auto unsupported = [&](const std::string& what) { TokenStream::fail_unsupported_at(line, what); };
  if (const auto* name = std::get_if<NameExpression>(&callee.node)) {
    if (name->name == "loop") {
      unsupported("a recursive loop");
    }
    if (name->name == "cycler" || name->name == "joiner" || name->name == "lipsum") {
      unsupported(fmt::format("the function '{}'", name->name));
    }
  } else if (const auto* member = std::get_if<AttributeExpression>(&callee.node)) {
    const auto* object = std::get_if<NameExpression>(&member->object->node);
    const bool of_loop = object != nullptr && object->name == "loop";
    if (is_unsupported_method(member->name) || (of_loop && (member->name == "cycle" || member->name == "changed"))) {
      unsupported(fmt::format("the method '{}'", member->name));
    }
  }
}

bool starts_operand(const TokenStream& tokens) {
  switch (tokens.current().kind) {
    case Token::Kind::kName: return !tokens.is_name("else") && !tokens.is_name("or") && !tokens.is_name("and");
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat: return true;
    default: return tokens.is_operator("[") || tokens.is_operator("{");
  }
}

/// "name" or "name.name…", as filters and tests of jinja2 may be called.
std::string dotted_name(TokenStream& tokens) {
  std::string name = tokens.expect(Token::Kind::kName, "a name").text;
  while (tokens.skip_operator(".")) {
    name += ".";
    name += tokens.expect(Token::Kind::kName, "a name").text;
  }
  return name;
}

}  // namespace

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (tokens_.is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_operator("|")) {
      node = parse_filters(std::move(node));
    } else if (tokens_.is_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  const int line = tokens_.next().line;
  if (tokens_.is(Token::Kind::kInteger)) {
    ExpressionPtr key = make_expression(line, LiteralExpression{Value(tokens_.next().integer)});
    return make_expression(line, ItemExpression{std::move(object), std::move(key)});
  }
  const std::string& name = tokens_.expect(Token::Kind::kName, "a name or a number after '.'").text;
  return make_expression(line, AttributeExpression{std::move(object), name});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.next().line;
  std::vector<ExpressionPtr> keys;
  do {
    ExpressionPtr key = tokens_.is_operator(":") ? nullptr : parse_expression();
    if (tokens_.is_operator(":")) {
      if (!keys.empty()) {
        TokenStream::fail_unsupported_at(line, "a slice among several keys");
      }
      return parse_slice(std::move(object), std::move(key), line);
    }
    keys.push_back(std::move(key));
  } while (tokens_.skip_operator(","));
  tokens_.expect_operator("]");
  ExpressionPtr key =
      keys.size() == 1 ? std::move(keys.front()) : make_expression(line, ListExpression{SequenceKind::kTuple, std::move(keys)});
  return make_expression(line, ItemExpression{std::move(object), std::move(key)});
}

/// From the first ':' to the ']'.
ExpressionPtr ExpressionParser::parse_slice(ExpressionPtr object, ExpressionPtr start, int line) {
  tokens_.expect_operator(":");
  const auto part = [&] { return tokens_.is_operator(":") || tokens_.is_operator("]") ? nullptr : parse_expression(); };
  ExpressionPtr stop = part();
  ExpressionPtr step = tokens_.skip_operator(":") ? part() : nullptr;
  if (tokens_.is_operator(",")) {
    TokenStream::fail_unsupported_at(line, "a slice among several keys");
  }
  tokens_.expect_operator("]");
  return make_expression(line, SliceExpression{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ArgumentList ExpressionParser::parse_arguments() {
  const int line = tokens_.current().line;
  tokens_.expect_operator("(");
  ArgumentList arguments;
  while (!tokens_.is_operator(")")) {
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      TokenStream::fail_unsupported_at(line, fmt::format("a call with {}arguments", tokens_.current().text));
    }
    const Token& ahead = tokens_.look_ahead();
    if (tokens_.is(Token::Kind::kName) && ahead.kind == Token::Kind::kOperator && ahead.text == "=") {
      std::string name = tokens_.next().text;
      tokens_.next();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else if (!arguments.named.empty()) {
      tokens_.fail_here("a positional argument follows a named one");
    } else {
      arguments.positional.push_back(parse_expression());
    }
    if (!tokens_.is_operator(")")) {
      tokens_.expect_operator(",");
    }
  }
  tokens_.expect_operator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  const int line = tokens_.current().line;
  check_callee(*callee, line);
  ArgumentList arguments = parse_arguments();
  return make_expression(line, CallExpression{std::move(callee), std::move(arguments)});
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr subject) {
  while (tokens_.skip_operator("|")) {
    subject = parse_filter(std::move(subject));
  }
  return subject;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr subject) {
  const int line = tokens_.current().line;
  const std::string name = dotted_name(tokens_);
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) {
    TokenStream::fail_unsupported_at(line, fmt::format("the filter '{}'", name));
  }
  ArgumentList arguments = tokens_.is_operator("(") ? parse_arguments() : ArgumentList{};
  return make_expression(line, FilterExpression{std::move(subject), filter, std::move(arguments)});
}

/// "is name(a, b)" or "is name a".
ArgumentList ExpressionParser::parse_test_arguments() {
  if (tokens_.is_operator("(")) {
    return parse_arguments();
  }
  ArgumentList arguments;
  if (starts_operand(tokens_)) {
    if (tokens_.is_name("is")) {
      tokens_.fail_here("You cannot chain multiple tests with is");
    }
    ExpressionPtr operand = parse_primary();
    arguments.positional.push_back(parse_postfix(std::move(operand)));
  }
  return arguments;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr subject) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  const std::string name = dotted_name(tokens_);
  const TestEntry* test = find_test(name);
  if (test == nullptr) {
    TokenStream::fail_unsupported_at(line, fmt::format("the test '{}'", name));
  }
  ArgumentList arguments = parse_test_arguments();
  ExpressionPtr node = make_expression(line, TestExpression{std::move(subject), test, std::move(arguments)});
  return negated ? make_expression(line, UnaryExpression{UnaryOperator::kNot, std::move(node)}) : std::move(node);
}

}  // namespace lynx::text::jinja
