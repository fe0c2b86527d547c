#pragma once

// JSON from strangers, within bounds.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/openai_error.h"

namespace lynx::server {

/// Keeps the order of keys: a chat template may print an object.
using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 32;
inline constexpr std::size_t kMaxJsonNodes = std::size_t{4} << 20;

/// Parses one JSON object, in time linear in `text`. 400 for malformed JSON (invalid UTF-8 and lone surrogates included, with the
/// byte position), duplicate keys, more than kMaxJsonDepth levels or kMaxJsonNodes values, or anything but an object.
ApiResult<Json> parse_json_object(std::string_view text);

/// Compact, one line, always valid UTF-8: broken sequences become U+FFFD.
std::string dump_json(const Json& json);

}  // namespace lynx::server
