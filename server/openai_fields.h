#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai_json.h"

namespace lynx::server {

/// Reads the fields of one request object. The first thing that is wrong is kept as the error, naming the field; reading goes on
/// harmlessly after it, so that a parser reads straight down and looks at the error once. An explicit null is an absent field.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}

  const Json* find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  /// Whole numbers, also written as 16.0.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max);
  std::optional<double> number(std::string_view name, double min, double max);
  /// Token ids in [0, vocabulary).
  std::vector<std::int32_t> token_ids(std::string_view name, int vocabulary);

  void fail(ApiError error);
  void fail(std::string_view name, std::string message);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  std::optional<ApiError> error_;
};

/// A JSON number that is whole and exactly known (a float only below 2^53); nullopt for everything else.
std::optional<std::int64_t> whole_number(const Json& value);

/// "a string", "an object"…: what a wrong type is called in a message.
std::string_view json_kind(const Json& value);

}  // namespace lynx::server
