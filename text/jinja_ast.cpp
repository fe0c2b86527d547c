#include "text/jinja_ast.h"

#include <algorithm>

#include <fmt/format.h>

namespace lynx::text::jinja {

namespace {

/// The depth of the deepest expression directly below a node.
class DepthVisitor {
 public:
  int deepest() const { return deepest_; }

  void operator()(const LiteralExpression&) {}
  void operator()(const NameExpression&) {}
  void operator()(const CapturedExpression&) {}
  void operator()(const ListExpression& node) { see_all(node.items); }
  void operator()(const DictExpression& node) {
    for (const auto& [key, value] : node.entries) {
      see(key);
      see(value);
    }
  }
  void operator()(const AttributeExpression& node) { see(node.object); }
  void operator()(const ItemExpression& node) { see(node.object, node.key); }
  void operator()(const SliceExpression& node) { see(node.object, node.start, node.stop, node.step); }
  void operator()(const CallExpression& node) { see_arguments(node.callee, node.arguments); }
  void operator()(const FilterExpression& node) { see_arguments(node.subject, node.arguments); }
  void operator()(const TestExpression& node) { see_arguments(node.subject, node.arguments); }
  void operator()(const UnaryExpression& node) { see(node.operand); }
  void operator()(const BinaryExpression& node) { see(node.left, node.right); }
  void operator()(const LogicExpression& node) { see(node.left, node.right); }
  void operator()(const ConcatExpression& node) { see_all(node.parts); }
  void operator()(const CompareExpression& node) {
    see(node.first);
    for (const auto& part : node.rest) {
      see(part.second);
    }
  }
  void operator()(const ConditionalExpression& node) { see(node.condition, node.then, node.otherwise); }

 private:
  void see(const ExpressionPtr& node) { deepest_ = std::max(deepest_, node == nullptr ? 0 : node->depth); }
  template <class... Rest>
  void see(const ExpressionPtr& node, const Rest&... rest) {
    see(node);
    (see(rest), ...);
  }
  void see_all(const std::vector<ExpressionPtr>& nodes) {
    for (const ExpressionPtr& node : nodes) {
      see(node);
    }
  }
  void see_arguments(const ExpressionPtr& subject, const ArgumentList& arguments) {
    see(subject);
    see_all(arguments.positional);
    for (const auto& argument : arguments.named) {
      see(argument.second);
    }
  }

  int deepest_ = 0;
};

}  // namespace

ExpressionPtr make_expression(int line, Expression::Node node) {
  DepthVisitor depth;
  std::visit(depth, node);
  if (depth.deepest() >= kMaxExpressionDepth) {
    fail_unsupported("line {}: an expression nested deeper than {}", line, kMaxExpressionDepth);
  }
  return std::make_unique<const Expression>(Expression{line, depth.deepest() + 1, std::move(node)});
}

}  // namespace lynx::text::jinja
