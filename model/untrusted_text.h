#pragma once

#include <string>
#include <string_view>

namespace lynx::model {

/// Text from a file, fit for a message: in quotes, at most 64 bytes of it, anything but printable ASCII as \xNN.
std::string quote(std::string_view text);

}  // namespace lynx::model
