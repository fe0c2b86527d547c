#include "text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>

#include "text/jinja_expression_parser.h"

namespace lynx::text::jinja {

namespace {

constexpr int kMaxBlockDepth = 60;

/// Tags of jinja2 that chat templates have no use for: they load other templates, or escape HTML.
constexpr std::string_view kUnsupportedTags[] = {"autoescape", "block",   "call",  "extends", "from",
                                                 "import",     "include", "print", "with"};

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Block parse_template() {
    Block block = parse_block({});
    return block;
  }

 private:
  using EndTags = std::initializer_list<std::string_view>;

  static bool among(EndTags tags, std::string_view name) { return std::find(tags.begin(), tags.end(), name) != tags.end(); }

  void end_tag() { tokens_.expect(Token::Kind::kBlockEnd, "'%}'"); }

  /// After a tag's expressions: its body up to and into one of the end tags, whose name becomes the current token.
  Block parse_body(EndTags end_tags) {
    tokens_.skip_operator(":");
    end_tag();
    return parse_block(end_tags);
  }

  /// A body that only one tag can end; that tag is consumed.
  Block parse_body_until(std::string_view end) {
    Block body = parse_body({end});
    tokens_.next();
    return body;
  }

  /// Statements up to an end tag ("{%" consumed, its name current); without end tags up to the end of the template.
  Block parse_block(EndTags end_tags) {
    if (++depth_ > kMaxBlockDepth) {
      TokenStream::fail_unsupported_at(tokens_.current().line, fmt::format("blocks nested deeper than {}", kMaxBlockDepth));
    }
    Block block;
    while (!tokens_.is(Token::Kind::kEnd)) {
      const Token& token = tokens_.next();
      if (token.kind == Token::Kind::kData) {
        block.push_back({token.line, DataStatement{token.text}});
      } else if (token.kind == Token::Kind::kVariableBegin) {
        block.push_back({token.line, OutputStatement{expressions_.parse_tuple()}});
        tokens_.expect(Token::Kind::kVariableEnd, "'}}'");
      } else if (tokens_.is(Token::Kind::kName) && among(end_tags, tokens_.current().text)) {
        --depth_;
        return block;
      } else {
        block.push_back(parse_statement());
        end_tag();
      }
    }
    if (end_tags.size() != 0) {
      tokens_.fail_here(fmt::format("unexpected end of template, looking for the tag '{}'", *std::prev(end_tags.end())));
    }
    --depth_;
    return block;
  }

  Statement parse_statement() {
    const Token& tag = tokens_.expect(Token::Kind::kName, "a tag name");
    const std::string& name = tag.text;
    if (name == "if") return {tag.line, parse_if()};
    if (name == "for") return {tag.line, parse_for()};
    if (name == "set") return parse_set(tag.line);
    if (name == "macro") return {tag.line, parse_macro(tag.line)};
    if (name == "filter") return {tag.line, parse_filter_block(tag.line)};
    if (name == "generation") return {tag.line, GenerationStatement{parse_scoped_body("endgeneration")}};
    if (name == "break" || name == "continue") {
      if (loops_ == 0) {
        fail("line {}: '{}' outside of a loop", tag.line, name);
      }
      return name == "break" ? Statement{tag.line, BreakStatement{}} : Statement{tag.line, ContinueStatement{}};
    }
    if (std::find(std::begin(kUnsupportedTags), std::end(kUnsupportedTags), name) != std::end(kUnsupportedTags)) {
      TokenStream::fail_unsupported_at(tag.line, fmt::format("the tag '{}'", name));
    }
    fail("line {}: unknown tag '{}'", tag.line, name);
  }

  /// A body with variables of its own, in which no macro may be defined.
  Block parse_scoped_body(std::string_view end) {
    ++scopes_;
    Block body = parse_body_until(end);
    --scopes_;
    return body;
  }

  IfStatement parse_if() {
    IfStatement statement;
    while (true) {
      ExpressionPtr condition = expressions_.parse_tuple(false);
      Block body = parse_body({"elif", "else", "endif"});
      statement.branches.emplace_back(std::move(condition), std::move(body));
      const std::string& tag = tokens_.next().text;
      if (tag == "else") {
        statement.otherwise = parse_body_until("endif");
      }
      if (tag != "elif") {
        return statement;
      }
    }
  }

  ForStatement parse_for() {
    ForStatement statement;
    statement.target = parse_target("in", false);
    if (!tokens_.skip_name("in")) {
      tokens_.fail_here(fmt::format("expected 'in', got {}", describe(tokens_.current())));
    }
    statement.iterable = expressions_.parse_tuple(false);
    if (tokens_.skip_name("if")) {
      statement.condition = expressions_.parse_expression();
    }
    if (tokens_.is_name("recursive")) {
      TokenStream::fail_unsupported_at(tokens_.current().line, "a recursive loop");
    }
    ++scopes_;
    ++loops_;
    statement.body = parse_body({"endfor", "else"});
    --loops_;
    if (tokens_.next().text == "else") {
      statement.otherwise = parse_body_until("endfor");
    }
    --scopes_;
    return statement;
  }

  Statement parse_set(int line) {
    Target target = parse_target("", true);
    if (tokens_.skip_operator("=")) {
      return {line, SetStatement{std::move(target), expressions_.parse_tuple()}};
    }
    ExpressionPtr value = expressions_.parse_filters(make_expression(line, CapturedExpression{}));
    return {line, SetBlockStatement{std::move(target), std::move(value), parse_scoped_body("endset")}};
  }

  FilterBlockStatement parse_filter_block(int line) {
    ExpressionPtr value = expressions_.parse_filter(make_expression(line, CapturedExpression{}));
    value = expressions_.parse_filters(std::move(value));
    return {std::move(value), parse_scoped_body("endfilter")};
  }

  MacroStatement parse_macro(int line) {
    if (scopes_ > 0) {
      TokenStream::fail_unsupported_at(line, "a macro inside a loop, a macro or a block");
    }
    MacroStatement macro;
    macro.name = tokens_.expect(Token::Kind::kName, "a macro name").text;
    expressions_.set_in_macro(true);
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      MacroParameter& parameter = macro.parameters.emplace_back();
      parameter.name = tokens_.expect(Token::Kind::kName, "a parameter name").text;
      if (parameter.name == "caller") {
        TokenStream::fail_unsupported_at(line, "'caller' in a macro");
      }
      if (tokens_.skip_operator("=")) {
        parameter.fallback = expressions_.parse_expression();
      } else if (macro.parameters.size() > 1 && macro.parameters[macro.parameters.size() - 2].fallback != nullptr) {
        tokens_.fail_here("non-default argument follows default argument");
      }
      if (!tokens_.is_operator(")")) {
        tokens_.expect_operator(",");
      }
    }
    tokens_.expect_operator(")");
    macro.body = parse_scoped_body("endmacro");
    expressions_.set_in_macro(false);
    return macro;
  }

  /// One or more targets with commas; `end` is the name that ends them, besides "=" and the end of the tag.
  Target parse_target(std::string_view end, bool with_namespace) {
    const auto at_end = [&] {
      return tokens_.is_operator("=") || tokens_.is_operator(")") || tokens_.is(Token::Kind::kBlockEnd) ||
             (!end.empty() && tokens_.is_name(end));
    };
    Target first = parse_single_target(with_namespace);
    if (!tokens_.is_operator(",")) {
      return first;
    }
    Target tuple;
    tuple.items.push_back(std::move(first));
    while (tokens_.skip_operator(",") && !at_end()) {
      tuple.items.push_back(parse_single_target(with_namespace));
    }
    return tuple;
  }

  Target parse_single_target(bool with_namespace) {
    if (++depth_ > kMaxBlockDepth) {
      TokenStream::fail_unsupported_at(tokens_.current().line, "a target nested this deep");
    }
    Target target;
    if (tokens_.skip_operator("(")) {
      target = parse_target("", false);
      tokens_.expect_operator(")");
    } else {
      const Token& token = tokens_.expect(Token::Kind::kName, "a name to assign to");
      static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
      if (std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants)) {
        fail("line {}: can't assign to '{}'", token.line, token.text);
      }
      target.name = token.text;
      if (with_namespace && tokens_.skip_operator(".")) {
        target.attribute = tokens_.expect(Token::Kind::kName, "an attribute name").text;
      }
    }
    --depth_;
    return target;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int scopes_ = 0;  ///< Loops, macros and captured blocks around the current place.
  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) {
  return Parser(source).parse_template();
}

}  // namespace lynx::text::jinja
