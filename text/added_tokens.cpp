#include "text/added_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/utf8.h"

namespace lynx::text {
namespace {

constexpr auto kByByte = [](const std::pair<char, std::int32_t>& edge, char byte) { return edge.first < byte; };

/// Unicode's White_Space, as the regular expressions behind lstrip and rstrip see it.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// Where the white space that ends at `end` begins; not before `floor`.
std::size_t white_space_before(std::string_view text, std::size_t floor, std::size_t end) {
  while (end > floor) {
    std::size_t begin = end - 1;
    while (begin > floor && (static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u) --begin;
    const Utf8Step step = decode_utf8(text.substr(begin, end - begin));
    if (step.kind != Utf8Step::Kind::kValid || !is_white_space(step.code_point)) break;
    end = begin;
  }
  return end;
}

std::size_t white_space_after(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const Utf8Step step = decode_utf8(text.substr(begin));
    if (step.kind != Utf8Step::Kind::kValid || !is_white_space(step.code_point)) break;
    begin += step.length;
  }
  return begin;
}

}  // namespace

Result<AddedTokens> AddedTokens::create(const TokenizerSpec& spec) {
  using Kind = TokenizerSpec::TokenKind;
  AddedTokens added;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec.tokens[id];
    if (token.kind != Kind::kControl && token.kind != Kind::kUserDefined) continue;
    if (token.text.size() > kLongestBytes) {
      return invalid_argument(fmt::format("token {}: {} bytes are too long for a special token", id, token.text.size()));
    }
    if (find_invalid_utf8(token.text)) return invalid_argument(fmt::format("token {}: a special token that is not UTF-8", id));
    if (token.text.empty()) continue;
    added.insert(token.text, static_cast<std::int32_t>(id));
    added.flags_.emplace_back(static_cast<std::int32_t>(id),
                              Flags{token.kind == Kind::kControl, token.strip_left, token.strip_right});
  }
  return added;
}

void AddedTokens::insert(std::string_view text, std::int32_t id) {
  starts_[static_cast<unsigned char>(text[0])] = true;
  std::int32_t node = 0;
  for (const char byte : text) {
    std::int32_t to = child(node, byte);
    if (to < 0) {
      to = static_cast<std::int32_t>(nodes_.size());
      auto& next = nodes_[static_cast<std::size_t>(node)].next;
      next.insert(std::lower_bound(next.begin(), next.end(), byte, kByByte), {byte, to});
      nodes_.emplace_back();
    }
    node = to;
  }
  nodes_[static_cast<std::size_t>(node)].id = id;
}

std::int32_t AddedTokens::child(std::int32_t node, char byte) const {
  const auto& next = nodes_[static_cast<std::size_t>(node)].next;
  const auto found = std::lower_bound(next.begin(), next.end(), byte, kByByte);
  return found != next.end() && found->first == byte ? found->second : -1;
}

std::pair<std::int32_t, std::size_t> AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  std::pair<std::int32_t, std::size_t> longest{-1, 0};
  std::int32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node < 0) break;
    if (const std::int32_t id = nodes_[static_cast<std::size_t>(node)].id; id >= 0) longest = {id, i + 1 - at};
  }
  return longest;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from, bool parse_special) const {
  std::size_t at = from;
  while (at < text.size()) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto [id, length] = longest_at(text, at);
    if (id < 0) {
      ++at;
      continue;
    }
    const auto by_id = [](const auto& entry, std::int32_t value) { return entry.first < value; };
    const Flags flags = std::lower_bound(flags_.begin(), flags_.end(), id, by_id)->second;
    if (flags.control && !parse_special) {
      at += length;
      continue;
    }
    Match match{at, at + length, id};
    if (flags.strip_left) match.begin = white_space_before(text, from, match.begin);
    if (flags.strip_right) match.end = white_space_after(text, match.end);
    return match;
  }
  return std::nullopt;
}

}  // namespace lynx::text
