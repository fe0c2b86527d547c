#pragma once

// What a template is parsed into. Immutable; shared by all renders.

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_value.h"

namespace lynx::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct LiteralExpression {
  Value value;
};
struct NameExpression {
  std::string name;
};
/// [a, b] or (a, b).
struct ListExpression {
  SequenceKind kind;
  std::vector<ExpressionPtr> items;
};
struct DictExpression {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct AttributeExpression {
  ExpressionPtr object;
  std::string name;
};
struct ItemExpression {
  ExpressionPtr object;
  ExpressionPtr key;
};
/// object[start:stop:step]; absent parts are null.
struct SliceExpression {
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};
struct CallExpression {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterExpression {
  ExpressionPtr subject;
  const FilterEntry* filter;
  ArgumentList arguments;
};
struct TestExpression {
  ExpressionPtr subject;
  const TestEntry* test;
  ArgumentList arguments;
};
/// The output of a block under {% filter … %} or {% set x | … %}.
struct CapturedExpression {};
enum class UnaryOperator : std::uint8_t { kNot, kNegate, kPositive };
struct UnaryExpression {
  UnaryOperator op;
  ExpressionPtr operand;
};
struct BinaryExpression {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// a and b, a or b: the value that decides, as in Python.
struct LogicExpression {
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// a ~ b ~ c.
struct ConcatExpression {
  std::vector<ExpressionPtr> parts;
};
/// a < b <= c: each pair of neighbours must hold.
struct CompareExpression {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
/// a if condition else b; b may be null.
struct ConditionalExpression {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};

struct Expression {
  using Node = std::variant<LiteralExpression, NameExpression, ListExpression, DictExpression, AttributeExpression, ItemExpression,
                            SliceExpression, CallExpression, FilterExpression, TestExpression, CapturedExpression, UnaryExpression,
                            BinaryExpression, LogicExpression, ConcatExpression, CompareExpression, ConditionalExpression>;
  int line = 0;
  int depth = 1;  ///< Of the tree below, itself included.
  Node node;
};

/// Deeper trees are refused: the interpreter and the destructors recurse over them.
inline constexpr int kMaxExpressionDepth = 150;

/// Throws UNIMPLEMENTED, naming the line, when the tree would become too deep.
ExpressionPtr make_expression(int line, Expression::Node node);

/// What can be assigned to: a name, namespace.attribute, or a tuple of these.
struct Target {
  std::string name;
  std::string attribute;      ///< Empty for a plain name.
  std::vector<Target> items;  ///< Not empty for a tuple, whose name is empty.
};

struct Statement;
using Block = std::vector<Statement>;

struct DataStatement {
  std::string text;
};
struct OutputStatement {
  ExpressionPtr value;
};
struct IfStatement {
  std::vector<std::pair<ExpressionPtr, Block>> branches;  ///< if and elif.
  Block otherwise;
};
struct ForStatement {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  ///< for … if condition; null when absent.
  Block body;
  Block otherwise;  ///< Runs when no item was visited.
};
struct SetStatement {
  Target target;
  ExpressionPtr value;
};
/// {% set x %}…{% endset %}; `value` is the captured output or filters of it.
struct SetBlockStatement {
  Target target;
  ExpressionPtr value;
  Block body;
};
struct FilterBlockStatement {
  ExpressionPtr value;
  Block body;
};
struct MacroParameter {
  std::string name;
  ExpressionPtr fallback;  ///< Null: undefined when not passed.
};
struct MacroStatement {
  std::string name;
  std::vector<MacroParameter> parameters;
  Block body;
};
/// {% generation %}: transformers marks what the assistant said; it prints its body.
struct GenerationStatement {
  Block body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  int line = 0;
  std::variant<DataStatement, OutputStatement, IfStatement, ForStatement, SetStatement, SetBlockStatement, FilterBlockStatement,
               MacroStatement, GenerationStatement, BreakStatement, ContinueStatement>
      node;
};

}  // namespace lynx::text::jinja
