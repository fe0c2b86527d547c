#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/utf8.h"

namespace lynx::text {
namespace {

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

/// Combining marks and compositions that came after Unicode 9 (first … last). The oracle's tables (Hugging Face `tokenizers` 0.23)
/// end there: to it these are characters that stand alone.
constexpr std::pair<char32_t, char32_t> kStandAlone[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},     {0xd3b, 0xd3c},
    {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}};

bool stands_alone(char32_t code_point) {
  const auto range = std::lower_bound(std::begin(kStandAlone), std::end(kStandAlone), code_point,
                                      [](const auto& entry, char32_t value) { return entry.second < value; });
  return range != std::end(kStandAlone) && range->first <= code_point;
}

int combining_class(utf8proc_int32_t code_point) {
  return static_cast<int>(utf8proc_get_property(code_point)->combining_class);
}

Status utf8proc_failure(utf8proc_ssize_t error) {
  return internal_error(fmt::format("NFC: {}", utf8proc_errmsg(error)));
}

Status append_decomposition(char32_t code_point, std::vector<utf8proc_int32_t>& decomposed) {
  std::array<utf8proc_int32_t, 8> parts{};  // The longest canonical decomposition has four.
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts.data(),
                                                         static_cast<utf8proc_ssize_t>(parts.size()), kCompose, nullptr);
  if (count < 0) return utf8proc_failure(count);
  if (count > static_cast<utf8proc_ssize_t>(parts.size())) return utf8proc_failure(UTF8PROC_ERROR_OVERFLOW);
  decomposed.insert(decomposed.end(), parts.begin(), parts.begin() + count);
  return {};
}

/// The canonical order of combining marks. utf8proc_map would do it too, in quadratic time: a megabyte of marks would take minutes.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto is_mark = [](utf8proc_int32_t code_point) { return combining_class(code_point) != 0; };
  for (auto begin = std::find_if(text.begin(), text.end(), is_mark); begin != text.end();) {
    const auto end = std::find_if_not(begin, text.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = std::find_if(end, text.end(), is_mark);
  }
}

/// Moves the composed form of `decomposed` to the end of `out`.
Status append_composed(std::vector<utf8proc_int32_t>& decomposed, std::string& out) {
  if (decomposed.empty()) return {};
  order_marks(decomposed);
  const utf8proc_ssize_t length =
      utf8proc_normalize_utf32(decomposed.data(), static_cast<utf8proc_ssize_t>(decomposed.size()), kCompose);
  if (length < 0) return utf8proc_failure(length);
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, static_cast<char32_t>(decomposed[static_cast<std::size_t>(i)]));
  decomposed.clear();
  return {};
}

/// Below U+0300 there is nothing that composes with what stands before it; all above have a lead byte from here on.
constexpr unsigned char kLeadOfU0300 = 0xcc;

/// The first byte of a code point from U+0300 on.
std::size_t find_beyond(std::string_view text) {
  const auto beyond = [](char byte) { return static_cast<unsigned char>(byte) >= kLeadOfU0300; };
  return static_cast<std::size_t>(std::find_if(text.begin(), text.end(), beyond) - text.begin());
}

/// Takes one code point below U+0300, if there is one, and all that follow up to the next such.
Status append_stretch(std::string_view& text, std::string& out) {
  std::vector<utf8proc_int32_t> decomposed;
  for (bool first = true; !text.empty(); first = false) {
    if (!first && static_cast<unsigned char>(text[0]) < kLeadOfU0300) break;
    const Utf8Step step = decode_utf8(text);
    if (stands_alone(step.code_point)) {
      LYNX_RETURN_IF_ERROR(append_composed(decomposed, out));
      append_utf8(out, step.code_point);
    } else {
      LYNX_RETURN_IF_ERROR(append_decomposition(step.code_point, decomposed));
    }
    text.remove_prefix(step.length);
  }
  return append_composed(decomposed, out);
}

}  // namespace

bool is_trivially_nfc(std::string_view text) {
  return find_beyond(text) == text.size();
}

Result<std::string> to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    std::size_t plain = find_beyond(text);
    if (plain == text.size()) break;
    if (plain > 0) --plain;  // The character before may compose; step back to its first byte.
    while (plain > 0 && (static_cast<unsigned char>(text[plain]) & 0xc0u) == 0x80u) --plain;
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    LYNX_RETURN_IF_ERROR(append_stretch(text, out));
  }
  out.append(text);
  return out;
}

}  // namespace lynx::text
