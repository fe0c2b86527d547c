#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace lynx {

/// Parses a size such as "2GiB", "512MiB", "64KiB", "1.5GiB", "4GB" (decimal) or "1048576" (bytes) into bytes.
/// Errors: INVALID_ARGUMENT naming the text, for an unknown unit, a negative or zero size, or one beyond 2^62.
Result<std::int64_t> parse_bytes(std::string_view text);

/// "2.00 GiB", "640.0 KiB", "17 B": for logs and messages.
std::string format_bytes(std::int64_t bytes);

}  // namespace lynx
