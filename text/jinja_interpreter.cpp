#include "text/jinja_interpreter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/jinja_format.h"

namespace lynx::text::jinja {

/// Makes a scope the current one while it lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope& scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, &scope)) {}
  ~ScopeGuard() { interpreter_.scope_ = outer_; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
};

Interpreter::Interpreter(const Limits& limits, const std::tm& now) : runtime_{Budget(limits), now, {}}, budget_(runtime_.budget) {}

std::string Interpreter::run(const Block& block, const nlohmann::ordered_json& variables) {
  if (!variables.is_object()) {
    fail("the template's variables must be an object");
  }
  auto globals = global_functions();
  const Value converted = from_json(variables, budget_);
  for (const auto& [name, value] : converted.as_dict()->entries) {
    globals.emplace_back(name.as_text()->bytes, value);
  }
  names_.reserve(globals.size());
  for (auto& [name, value] : globals) {
    globals_.set(names_.emplace_back(name), std::move(value));
  }
  std::string output;
  output_ = &output;
  execute(block);
  return output;
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  const Budget::Level level(budget_);
  for (const Statement& statement : block) {
    budget_.charge_steps(1);
    line_ = statement.line;
    const Flow flow = std::visit([this](const auto& node) { return this->execute(node); }, statement.node);
    if (flow != Flow::kNext) {
      return flow;
    }
  }
  return Flow::kNext;
}

void Interpreter::print(std::string_view text) {
  budget_.charge_output(text.size());
  budget_.charge_reading(text.size());
  output_->append(text);
}

Interpreter::Flow Interpreter::execute(const DataStatement& statement) {
  print(statement.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const OutputStatement& statement) {
  const Value value = evaluate(*statement.value);
  if (const Text* text = value.as_text()) {
    print(text->bytes);
  } else {
    print(to_text(value, budget_));
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const IfStatement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    if (evaluate(*condition).truthy()) {
      return execute(body);
    }
  }
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::execute(const ForStatement& statement) {
  std::vector<Value> items = iterate(evaluate(*statement.iterable), budget_);
  std::function<bool(const Value&)> accepts;
  if (statement.condition != nullptr) {
    Scope* const outside = scope_;
    accepts = [this, &statement, outside](const Value& item) {
      Scope scope(outside);
      const ScopeGuard guard(*this, scope);
      assign(statement.target, item);
      return evaluate(*statement.condition).truthy();
    };
  }
  const auto loop = std::make_shared<ForLoop>(std::move(items), std::move(accepts));
  bool visited = false;
  while (loop->advance()) {
    visited = true;
    budget_.charge_steps(1);
    Scope scope(scope_);
    const ScopeGuard guard(*this, scope);
    assign(statement.target, loop->item());
    scope.set("loop", Value(std::shared_ptr<Loop>(loop)));
    if (execute(statement.body) == Flow::kBreak) {
      break;
    }
  }
  loop->finish();
  return visited ? Flow::kNext : execute_scoped(statement.otherwise);
}

Interpreter::Flow Interpreter::execute_scoped(const Block& block) {
  Scope scope(scope_);
  const ScopeGuard guard(*this, scope);
  return execute(block);
}

Interpreter::Flow Interpreter::execute(const SetStatement& statement) {
  check_namespaces(statement.target);
  assign(statement.target, evaluate(*statement.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::capture(const Block& block, std::string& output) {
  std::string* const outer = std::exchange(output_, &output);
  const Flow flow = execute_scoped(block);
  output_ = outer;
  budget_.charge_bytes(output.size());
  return flow;
}

Interpreter::Flow Interpreter::execute(const SetBlockStatement& statement) {
  std::string output;
  if (const Flow flow = capture(statement.body, output); flow != Flow::kNext) {
    return flow;
  }
  captured_ = Value::text(std::move(output));
  check_namespaces(statement.target);
  assign(statement.target, evaluate(*statement.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const FilterBlockStatement& statement) {
  std::string output;
  if (const Flow flow = capture(statement.body, output); flow != Flow::kNext) {
    return flow;
  }
  captured_ = Value::text(std::move(output));
  print(to_text(evaluate(*statement.value), budget_));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const GenerationStatement& statement) {
  return execute_scoped(statement.body);
}

Interpreter::Flow Interpreter::execute(const MacroStatement& statement) {
  auto function = std::make_shared<const Function>(Function{FunctionKind::kMacro, statement.name, &statement, nullptr});
  scope_->set(statement.name, Value(std::move(function)));
  return Flow::kNext;
}

void Interpreter::check_namespaces(const Target& target) const {
  for (const Target& item : target.items) {
    check_namespaces(item);
  }
  if (target.attribute.empty()) {
    return;
  }
  const Value* object = scope_->find(target.name);
  if (object == nullptr || object->as_namespace() == nullptr) {
    fail("cannot assign attribute on non-namespace object");
  }
  if (target.attribute.front() == '_') {
    fail("Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'.", target.attribute);
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    scope_->find(target.name)->as_namespace()->set(target.attribute, value);
    return;
  }
  if (target.items.empty()) {
    scope_->set(target.name, value);
    return;
  }
  if (!is_iterable(value)) {
    fail("cannot unpack non-iterable {} object", type_name(value));
  }
  const std::vector<Value> items = iterate(value, budget_);
  if (items.size() != target.items.size()) {
    const std::size_t expected = target.items.size();
    fail(items.size() > expected ? fmt::format("too many values to unpack (expected {})", expected)
                                 : fmt::format("not enough values to unpack (expected {}, got {})", expected, items.size()));
  }
  for (std::size_t index = 0; index < items.size(); ++index) {
    assign(target.items[index], items[index]);
  }
}

Value Interpreter::call_macro(const MacroStatement& macro, const Arguments& arguments) {
  const Budget::Level level(budget_);
  const auto& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    fail("macro '{}' takes not more than {} argument(s)", macro.name, parameters.size());
  }
  Scope scope(&root_);
  const ScopeGuard guard(*this, scope);
  for (const auto& argument : arguments.named) {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [&](const auto& parameter) { return parameter.name == argument.first; });
    if (found - parameters.begin() < static_cast<std::ptrdiff_t>(arguments.positional.size()) || found == parameters.end()) {
      fail("macro '{}' takes no keyword argument '{}'", macro.name, argument.first);
    }
  }
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const std::string& name = parameters[index].name;
    const Value* named = arguments.find_named(name);
    if (index < arguments.positional.size()) {
      scope.set(name, arguments.positional[index]);
    } else if (named != nullptr) {
      scope.set(name, *named);
    } else {
      scope.set(name, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
      missing.push_back(index);
    }
  }
  for (const std::size_t index : missing) {
    if (parameters[index].fallback != nullptr) {
      scope.set(parameters[index].name, evaluate(*parameters[index].fallback));
    }
  }
  std::string output;
  capture(macro.body, output);
  return Value::text(std::move(output));
}

}  // namespace lynx::text::jinja
