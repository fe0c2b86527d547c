#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace lynx::text {
namespace {

constexpr int kAlphabetEnd = 256 + 68;

struct Alphabet {
  std::array<char32_t, 256> spelling{};
  std::array<std::int16_t, kAlphabetEnd> byte{};  ///< By code point; −1 = not in the alphabet.
};

constexpr bool spells_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int spelled = spells_itself(byte) ? byte : next++;
    alphabet.spelling[static_cast<std::size_t>(byte)] = static_cast<char32_t>(spelled);
    alphabet.byte[static_cast<std::size_t>(spelled)] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  while (!spelled.empty()) {
    const Utf8Step step = decode_utf8(spelled);
    if (step.kind != Utf8Step::Kind::kValid || step.code_point >= kAlphabetEnd) return std::nullopt;
    const std::int16_t byte = kAlphabet.byte[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    spelled.remove_prefix(step.length);
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(spelled, kAlphabet.spelling[static_cast<unsigned char>(byte)]);
  return spelled;
}

}  // namespace lynx::text
