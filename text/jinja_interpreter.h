#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja_ast.h"
#include "text/jinja_functions.h"
#include "text/jinja_scope.h"

namespace lynx::text::jinja {

/// One render of one template. Throws Error.
class Interpreter {
 public:
  Interpreter(const Limits& limits, const std::tm& now);

  std::string run(const Block& block, const nlohmann::ordered_json& variables);

  /// The line of the template that was worked on last.
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;

  // Statements; jinja_interpreter.cpp.
  Flow execute(const Block& block);
  Flow execute(const DataStatement& statement);
  Flow execute(const OutputStatement& statement);
  Flow execute(const IfStatement& statement);
  Flow execute(const ForStatement& statement);
  Flow execute(const SetStatement& statement);
  Flow execute(const SetBlockStatement& statement);
  Flow execute(const FilterBlockStatement& statement);
  Flow execute(const MacroStatement& statement);
  Flow execute(const GenerationStatement& statement);
  Flow execute(const BreakStatement&) { return Flow::kBreak; }
  Flow execute(const ContinueStatement&) { return Flow::kContinue; }
  Flow execute_scoped(const Block& block);
  /// Runs `block` in a scope of its own and puts what it printed into `output`.
  Flow capture(const Block& block, std::string& output);
  void print(std::string_view text);
  void assign(const Target& target, const Value& value);
  void check_namespaces(const Target& target) const;
  Value call_macro(const MacroStatement& macro, const Arguments& arguments);

  // Expressions; jinja_evaluator.cpp.
  Value evaluate(const Expression& expression);
  Value evaluate(const LiteralExpression& node) { return node.value; }
  Value evaluate(const NameExpression& node);
  Value evaluate(const ListExpression& node);
  Value evaluate(const DictExpression& node);
  Value evaluate(const AttributeExpression& node);
  Value evaluate(const ItemExpression& node);
  Value evaluate(const SliceExpression& node);
  Value evaluate(const CallExpression& node);
  Value evaluate(const FilterExpression& node);
  Value evaluate(const TestExpression& node);
  Value evaluate(const CapturedExpression&) { return captured_; }
  Value evaluate(const UnaryExpression& node);
  Value evaluate(const BinaryExpression& node);
  Value evaluate(const LogicExpression& node);
  Value evaluate(const ConcatExpression& node);
  Value evaluate(const CompareExpression& node);
  Value evaluate(const ConditionalExpression& node);
  Arguments evaluate_arguments(const ArgumentList& list);
  Value call(const Value& callee, const Arguments& arguments);

  Runtime runtime_;
  Budget& budget_;  ///< The runtime's.
  Scope globals_{nullptr};
  Scope root_{&globals_};
  Scope* scope_ = &root_;
  std::vector<std::string> names_;  ///< Of the globals: scopes only point to names.
  std::string* output_ = nullptr;
  Value captured_;
  int line_ = 0;
};

}  // namespace lynx::text::jinja
