#pragma once

// jinja2's filters and tests, with the tojson that transformers puts in place of jinja2's.

#include <string_view>
#include <vector>

#include "text/jinja_arguments.h"
#include "text/jinja_value.h"

namespace lynx::text::jinja {

struct FilterEntry {
  std::string_view name;
  Value (*apply)(const Value& subject, const Arguments& arguments, Budget& budget);
};

struct TestEntry {
  std::string_view name;
  bool (*apply)(const Value& subject, const Arguments& arguments, Budget& budget);
};

/// Null for a name that we do not have.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);

// Filters that make or reduce sequences; jinja_sequence_filters.cpp.
const FilterEntry* find_sequence_filter(std::string_view name);

/// What `attribute` of sort, map, join, … means: a path "a.b.0", a number, or nothing (none: the item itself).
class AttributePath {
 public:
  AttributePath(const Value* attribute, Budget& budget);
  Value get(const Value& item, Budget& budget) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace lynx::text::jinja
