#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lynx::server {

/// The keys of --api-key-file, as both fronts ask for them.
class ApiKeys {
 public:
  static constexpr const char* kRefusal = "a valid API key is needed: Authorization: Bearer KEY";

  /// No key: everybody is let in.
  ApiKeys() = default;
  ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}  // NOLINT(google-explicit-constructor): it is nothing more.

  /// `header`: the value of Authorization. Compares in a time that does not show how much of a key was right.
  bool allow(std::string_view header) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace lynx::server
