#include "text/utf8.h"

#include <cstring>

namespace lynx::text {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080u;

std::size_t ascii_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position + 8 <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + position, 8);
    if ((word & kHighBits) != 0) break;
    position += 8;
  }
  while (position < text.size() && static_cast<unsigned char>(text[position]) < 0x80) ++position;
  return position;
}

/// What a lead byte promises: the sequence's length (0 = cannot lead) and the range of its second byte (RFC 3629, table 3-7 of
/// Unicode).
struct Lead {
  int length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
};

Lead classify_lead(unsigned char byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return {2};
  if (byte >= 0xe0 && byte <= 0xef) {
    return {3, static_cast<unsigned char>(byte == 0xe0 ? 0xa0 : 0x80), static_cast<unsigned char>(byte == 0xed ? 0x9f : 0xbf)};
  }
  if (byte >= 0xf0 && byte <= 0xf4) {
    return {4, static_cast<unsigned char>(byte == 0xf0 ? 0x90 : 0x80), static_cast<unsigned char>(byte == 0xf4 ? 0x8f : 0xbf)};
  }
  return {};
}

}  // namespace

Utf8Step decode_utf8(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {Utf8Step::Kind::kValid, 1, first};
  const Lead lead = classify_lead(first);
  if (lead.length == 0) return {Utf8Step::Kind::kInvalid, 1, 0};
  char32_t code_point = first & (0xffu >> (lead.length + 1));
  for (int i = 1; i < lead.length; ++i) {
    if (static_cast<std::size_t>(i) >= text.size()) return {Utf8Step::Kind::kIncomplete, static_cast<std::uint8_t>(i), 0};
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) return {Utf8Step::Kind::kInvalid, static_cast<std::uint8_t>(i), 0};
    code_point = (code_point << 6) | (byte & 0x3fu);
  }
  return {Utf8Step::Kind::kValid, static_cast<std::uint8_t>(lead.length), code_point};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  for (;;) {
    position += ascii_prefix(text.substr(position));
    if (position == text.size()) return std::nullopt;
    const Utf8Step step = decode_utf8(text.substr(position));
    if (step.kind != Utf8Step::Kind::kValid) return position;
    position += step.length;
  }
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u ? 1 : 0;
  return count;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto tail = [code_point](int shift) { return static_cast<char>(0x80u | ((code_point >> shift) & 0x3fu)); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xc0u | (code_point >> 6)));
    out.push_back(tail(0));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xe0u | (code_point >> 12)));
    out.push_back(tail(6));
    out.push_back(tail(0));
  } else {
    out.push_back(static_cast<char>(0xf0u | (code_point >> 18)));
    out.push_back(tail(12));
    out.push_back(tail(6));
    out.push_back(tail(0));
  }
}

}  // namespace lynx::text
