#pragma once

// JSON files of a Hugging Face directory: untrusted, so size, depth and types are checked.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/status.h"

namespace lynx::model {

/// Parses one document. INVALID_ARGUMENT, with the place, for bad syntax, invalid UTF-8, nesting deeper than 32 and duplicate keys.
/// Memory is at most some twenty times the text.
Result<nlohmann::json> parse_json(std::string_view text);

/// Reads directory/name; nullopt when there is no such file. Files beyond `most_bytes` are refused. Errors start with the path.
Result<std::optional<nlohmann::json>> read_json_file(const std::string& directory, std::string_view name, std::size_t most_bytes);

/// The member of an object; nullptr when it is absent or null, or `object` is something else.
const nlohmann::json* find_member(const nlohmann::json& object, const char* key);

/// Reads a member if it is there and not null, else leaves *out as it is. INVALID_ARGUMENT naming the key for another type or a
/// value that does not fit.
Status read_member(const nlohmann::json& object, const char* key, int* out);
Status read_member(const nlohmann::json& object, const char* key, float* out);
Status read_member(const nlohmann::json& object, const char* key, bool* out);
Status read_member(const nlohmann::json& object, const char* key, std::string* out);

/// The same, but a missing member is INVALID_ARGUMENT.
template <class T>
Status require_member(const nlohmann::json& object, const char* key, T* out) {
  if (find_member(object, key) == nullptr) return invalid_argument(std::string("'") + key + "': missing");
  return read_member(object, key, out);
}

/// An integer that fits an int; nullopt for anything else.
std::optional<int> as_int(const nlohmann::json& value);

}  // namespace lynx::model
