#pragma once

// Python's operators on values. Where Python would raise, these fail with its message; integers past 64 bits fail too.

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja_value.h"

namespace lynx::text::jinja {

enum class BinaryOperator : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Value apply(BinaryOperator op, const Value& left, const Value& right, Budget& budget);
Value negate(const Value& value);
Value positive(const Value& value);

/// left < right.
bool less(const Value& left, const Value& right, Budget& budget);
bool compare(Comparison op, const Value& left, const Value& right, Budget& budget);
/// item in container.
bool contains(const Value& container, const Value& item, Budget& budget);
/// len(value).
std::int64_t length(const Value& value, Budget& budget);

/// object.name and object[key], as jinja2's sandbox resolves them: attribute before item, item before attribute; undefined where
/// there is neither.
Value get_attribute(const Value& object, std::string_view name, Budget& budget);
Value get_item(const Value& object, const Value& key, Budget& budget);
/// object[start:stop:step]. Unlike get_item(), jinja2 lets Python's errors through here.
Value get_slice(const Value& object, const std::optional<Value>& start, const std::optional<Value>& stop,
                const std::optional<Value>& step, Budget& budget);

/// Byte offset of `needle` at or after `from`, or npos; linear in the worst case, unlike std::string::find.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0);

}  // namespace lynx::text::jinja
