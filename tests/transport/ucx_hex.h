#pragma once

// Addresses as lines of text between test processes.

#include <string>
#include <string_view>

namespace lynx::transport {

inline std::string to_hex(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

inline std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace lynx::transport
