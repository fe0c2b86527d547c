#pragma once

#include <string_view>

namespace lynx {

/// Takes the same time whatever `shown` and `known` hold; only their lengths show.
bool equal_secrets(std::string_view shown, std::string_view known);

}  // namespace lynx
