#pragma once

// The printable alphabet in which byte-level BPE files spell bytes (GPT-2): printable Latin-1 stands for itself, the other 68 bytes
// are U+0100, U+0101, … in order. A space is thus written "Ġ", a newline "Ċ".

#include <optional>
#include <string>
#include <string_view>

namespace lynx::text {

/// The bytes that `spelled` stands for; nullopt when it has a character outside the alphabet or is not UTF-8.
std::optional<std::string> bytes_of_spelling(std::string_view spelled);

/// How `bytes` are spelled. The inverse of bytes_of_spelling.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace lynx::text
