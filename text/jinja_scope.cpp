#include "text/jinja_scope.h"

#include <algorithm>

namespace lynx::text::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [known, value] : scope->variables_) {
      if (known == name) {
        return &value;
      }
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found =
      std::find_if(variables_.begin(), variables_.end(), [&](const auto& variable) { return variable.first == name; });
  if (found != variables_.end()) {
    found->second = std::move(value);
  } else {
    variables_.emplace_back(name, std::move(value));
  }
}

bool ForLoop::fetch() {
  while (next_ < pending_.size()) {
    const Value& candidate = pending_[next_++];
    if (accepts_ == nullptr || accepts_(candidate)) {
      visited_.push_back(candidate);
      return true;
    }
  }
  return false;
}

bool ForLoop::advance() {
  const std::size_t wanted = started_ ? index_ + 1 : 0;
  if (visited_.size() <= wanted && !fetch()) {
    return false;
  }
  started_ = true;
  index_ = wanted;
  return true;
}

void ForLoop::finish() {
  next_ = pending_.size();
  accepts_ = nullptr;
}

bool ForLoop::is_last() {
  return visited_.size() <= index_ + 1 && !fetch();
}

std::int64_t ForLoop::length() {
  while (fetch()) {
  }
  return static_cast<std::int64_t>(visited_.size());
}

std::shared_ptr<const Value> ForLoop::attribute(std::string_view name) {
  const auto make = [](Value value) { return std::make_shared<const Value>(std::move(value)); };
  const auto index = static_cast<std::int64_t>(index_);
  if (name == "index0") return make(Value(index));
  if (name == "index") return make(Value(index + 1));
  if (name == "first") return make(Value(index == 0));
  if (name == "last") return make(Value(is_last()));
  if (name == "length") return make(Value(length()));
  if (name == "revindex") return make(Value(length() - index));
  if (name == "revindex0") return make(Value(length() - index - 1));
  if (name == "depth") return make(Value(1));
  if (name == "depth0") return make(Value(0));
  if (name == "previtem") return make(index == 0 ? Value::undefined("there is no previous item") : visited_[index_ - 1]);
  if (name == "nextitem") return make(is_last() ? Value::undefined("there is no next item") : visited_[index_ + 1]);
  if (name == "cycle" || name == "changed") {
    fail_unsupported("loop.{}", name);
  }
  return nullptr;
}

}  // namespace lynx::text::jinja
