#include <algorithm>

#include <fmt/format.h>

#include "text/jinja_format.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_methods.h"

namespace lynx::text::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.charge_steps(1);
  line_ = expression.line;
  return std::visit([this](const auto& node) { return this->evaluate(node); }, expression.node);
}

Value Interpreter::evaluate(const NameExpression& node) {
  const Value* found = scope_->find(node.name);
  return found == nullptr ? Value::undefined(fmt::format("{} is undefined", quote_python(node.name))) : *found;
}

Value Interpreter::evaluate(const ListExpression& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) {
    items.push_back(evaluate(*item));
  }
  return make_sequence(node.kind, std::move(items), budget_);
}

Value Interpreter::evaluate(const DictExpression& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key_expression, value_expression] : node.entries) {
    Value key = evaluate(*key_expression);
    Value value = evaluate(*value_expression);
    entries.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(std::move(entries), budget_);
}

Value Interpreter::evaluate(const AttributeExpression& node) {
  return get_attribute(evaluate(*node.object), node.name, budget_);
}

Value Interpreter::evaluate(const ItemExpression& node) {
  const Value object = evaluate(*node.object);
  return get_item(object, evaluate(*node.key), budget_);
}

Value Interpreter::evaluate(const SliceExpression& node) {
  const Value object = evaluate(*node.object);
  const auto part = [this](const ExpressionPtr& bound) {
    return bound == nullptr ? std::nullopt : std::optional<Value>(evaluate(*bound));
  };
  const std::optional<Value> start = part(node.start);
  const std::optional<Value> stop = part(node.stop);
  const std::optional<Value> step = part(node.step);
  return get_slice(object, start, stop, step, budget_);
}

Arguments Interpreter::evaluate_arguments(const ArgumentList& list) {
  Arguments arguments;
  arguments.positional.reserve(list.positional.size());
  for (const ExpressionPtr& argument : list.positional) {
    arguments.positional.push_back(evaluate(*argument));
  }
  for (const auto& [name, argument] : list.named) {
    arguments.named.emplace_back(name, evaluate(*argument));
  }
  return arguments;
}

Value Interpreter::evaluate(const CallExpression& node) {
  if (const auto* member = std::get_if<AttributeExpression>(&node.callee->node)) {
    const Value object = evaluate(*member->object);
    if (!object.is_undefined() && member_kind(object, member->name) == MemberKind::kMethod) {
      return call_method(object, member->name, evaluate_arguments(node.arguments), budget_);
    }
    const Value callee = get_attribute(object, member->name, budget_);
    return call(callee, evaluate_arguments(node.arguments));
  }
  const Value callee = evaluate(*node.callee);
  return call(callee, evaluate_arguments(node.arguments));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  const Function* function = callee.as_function();
  if (function == nullptr) {
    fail("'{}' object is not callable", type_name(callee));
  }
  switch (function->kind) {
    case FunctionKind::kMacro: return call_macro(*function->macro, arguments);
    case FunctionKind::kMethod: return call_method(*function->self, function->name, arguments, budget_);
    default: return call_global(function->kind, arguments, runtime_);
  }
}

Value Interpreter::evaluate(const FilterExpression& node) {
  const Value subject = evaluate(*node.subject);
  return node.filter->apply(subject, evaluate_arguments(node.arguments), budget_);
}

Value Interpreter::evaluate(const TestExpression& node) {
  const Value subject = evaluate(*node.subject);
  return Value(node.test->apply(subject, evaluate_arguments(node.arguments), budget_));
}

Value Interpreter::evaluate(const UnaryExpression& node) {
  const Value operand = evaluate(*node.operand);
  switch (node.op) {
    case UnaryOperator::kNegate: return negate(operand);
    case UnaryOperator::kPositive: return positive(operand);
    case UnaryOperator::kNot: break;
  }
  return Value(!operand.truthy());
}

Value Interpreter::evaluate(const BinaryExpression& node) {
  const Value left = evaluate(*node.left);
  return apply(node.op, left, evaluate(*node.right), budget_);
}

Value Interpreter::evaluate(const LogicExpression& node) {
  Value left = evaluate(*node.left);
  return left.truthy() == node.is_and ? evaluate(*node.right) : std::move(left);
}

Value Interpreter::evaluate(const ConcatExpression& node) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) {
    text += to_text(evaluate(*part), budget_);
  }
  return make_text(std::move(text), budget_);
}

Value Interpreter::evaluate(const CompareExpression& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, expression] : node.rest) {
    Value right = evaluate(*expression);
    if (!compare(op, left, right, budget_)) {
      return Value(false);
    }
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate(const ConditionalExpression& node) {
  if (evaluate(*node.condition).truthy()) {
    return evaluate(*node.then);
  }
  if (node.otherwise != nullptr) {
    return evaluate(*node.otherwise);
  }
  return Value::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", line_));
}

}  // namespace lynx::text::jinja
