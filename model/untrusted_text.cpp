#include "model/untrusted_text.h"

#include <cstddef>

#include <fmt/format.h>

namespace lynx::model {

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out + (text.size() > kLongest ? "'…" : "'");
}

}  // namespace lynx::model
