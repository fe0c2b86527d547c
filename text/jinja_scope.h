#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace lynx::text::jinja {

/// The variables of one block. A name is looked up from the innermost scope outwards and always set in the innermost.
class Scope {
 public:
  explicit Scope(const Scope* parent) : parent_(parent) {}

  /// Null when no scope has the name.
  const Value* find(std::string_view name) const;
  /// `name` must outlive the scope: it lies in the template.
  void set(std::string_view name, Value value);

 private:
  const Scope* parent_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

/// The state of a for statement. Items that its condition rejects are skipped when they are reached, not before: the condition may
/// depend on what the body does.
class ForLoop : public Loop {
 public:
  /// `accepts` is empty for a loop without condition. It is called only until finish().
  ForLoop(std::vector<Value> items, std::function<bool(const Value&)> accepts)
      : pending_(std::move(items)), accepts_(std::move(accepts)) {}

  /// Goes to the next item; false after the last.
  bool advance();
  /// Only after advance() gave true.
  const Value& item() const { return visited_[index_]; }
  void finish();

  std::shared_ptr<const Value> attribute(std::string_view name) override;

 private:
  bool fetch();
  bool is_last();
  std::int64_t length();

  std::vector<Value> pending_;  ///< From `next_` on not looked at yet.
  std::size_t next_ = 0;
  std::function<bool(const Value&)> accepts_;
  std::vector<Value> visited_;  ///< Accepted ones, those looked ahead to included.
  std::size_t index_ = 0;
  bool started_ = false;
};

}  // namespace lynx::text::jinja
