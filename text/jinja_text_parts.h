#pragma once

// Cutting and replacing as Python's str does; shared by its methods and by filters. The views point into their argument.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_budget.h"

namespace lynx::text::jinja {

/// Without the white space at its sides, or without the code points of `characters` where given.
std::string_view strip_text(std::string_view text, const std::string* characters, bool left, bool right);

/// `count` < 0: all.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to, std::int64_t count, Budget& budget);

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends, Budget& budget);

/// Each part is charged. At most `limit` cuts; < 0: no limit. `separator` is not empty.
std::vector<std::string_view> split_at_spaces(std::string_view text, std::int64_t limit, Budget& budget);
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t limit, Budget& budget);
std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator, std::int64_t limit,
                                               Budget& budget);

}  // namespace lynx::text::jinja
