#include "server/openai_fields.h"

#include <fmt/format.h>

#include <cmath>

namespace lynx::server {

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "a boolean";
    default: return "a number";
  }
}

std::optional<std::int64_t> whole_number(const Json& value) {
  // A larger integer arrives as a float when it is beyond 64 bits or written with an exponent, and may have been rounded.
  constexpr double kTwoTo53 = 9007199254740992.0;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) >= kTwoTo53) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

const Json* FieldReader::find(std::string_view name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void FieldReader::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::fail(std::string_view name, std::string message) {
  fail(field_error(std::string(name), std::move(message)));
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, fmt::format("'{}' must be a boolean, not {}", name, json_kind(*value)));
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail(name, fmt::format("'{}' must be a string, not {}", name, json_kind(*value)));
  return std::nullopt;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t min, std::int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number) {
    fail(name, value->is_number() ? fmt::format("'{}' must be a 64-bit integer (below 2^53 if written as 1.0 or 1e0)", name)
                                  : fmt::format("'{}' must be an integer, not {}", name, json_kind(*value)));
    return std::nullopt;
  }
  if (*number >= min && *number <= max) return number;
  if (max >= INT32_MAX) {
    fail(name, fmt::format("'{}' must be at least {}, not {}", name, min, *number));
  } else {
    fail(name, fmt::format("'{}' must be from {} to {}, not {}", name, min, max, *number));
  }
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, double min, double max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(name, fmt::format("'{}' must be a number, not {}", name, json_kind(*value)));
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number >= min && number <= max) return number;
  fail(name, fmt::format("'{}' must be from {} to {}, not {}", name, min, max, number));
  return std::nullopt;
}

std::vector<std::int32_t> FieldReader::token_ids(std::string_view name, int vocabulary) {
  std::vector<std::int32_t> ids;
  const Json* value = find(name);
  if (value == nullptr) return ids;
  if (!value->is_array()) {
    fail(name, fmt::format("'{}' must be an array of token ids, not {}", name, json_kind(*value)));
    return ids;
  }
  ids.reserve(value->size());
  for (const Json& item : *value) {
    const auto id = whole_number(item);
    if (!id || *id < 0 || *id >= vocabulary) {
      fail(fmt::format("{}[{}]", name, ids.size()), fmt::format("'{}' must hold token ids from 0 to {}", name, vocabulary - 1));
      return {};
    }
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace lynx::server
