#pragma once

#include "text/jinja_ast.h"
#include "text/jinja_token_stream.h"

namespace lynx::text::jinja {

/// Recursive descent over jinja2's expression grammar.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// One expression; `with_conditional` admits "a if b else c" at its top.
  ExpressionPtr parse_expression(bool with_conditional = true);
  /// One expression, or several with commas: a tuple. It may not be empty.
  ExpressionPtr parse_tuple(bool with_conditional = true) { return parse_tuple(with_conditional, false); }
  /// Filters "| a | b(…)" applied to `subject`; `subject` itself when there are none.
  ExpressionPtr parse_filters(ExpressionPtr subject);
  /// One filter without its "|".
  ExpressionPtr parse_filter(ExpressionPtr subject);

  /// Inside a macro jinja2 gives a meaning to varargs, kwargs and caller; they are refused there.
  void set_in_macro(bool in_macro) { in_macro_ = in_macro; }

 private:
  /// Counts the nesting of what is being parsed, before there is a tree to measure.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.nesting_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  ExpressionPtr parse_tuple(bool with_conditional, bool may_be_empty);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_logic(bool is_and);
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr node);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_slice(ExpressionPtr object, ExpressionPtr start, int line);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_test(ExpressionPtr subject);
  ArgumentList parse_arguments();
  ArgumentList parse_test_arguments();

  TokenStream& tokens_;
  int nesting_ = 0;
  bool in_macro_ = false;
};

}  // namespace lynx::text::jinja
