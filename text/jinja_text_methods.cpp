#include <algorithm>
#include <limits>

#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_text_parts.h"
#include "text/jinja_unicode.h"

namespace lynx::text::jinja {

namespace {

Value list_of_texts(const std::vector<std::string_view>& parts, bool safe, Budget& budget,
                    SequenceKind kind = SequenceKind::kList) {
  budget.charge_items(2 * parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(make_text(std::string(part), budget, safe));
  }
  return make_sequence(kind, std::move(items), budget);
}

template <bool Left, bool Right>
Value strip(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("strip", arguments, {"chars"}, 0);
  const std::string* characters = bound.text(0);
  budget.charge_reading(characters == nullptr ? 0 : characters->size() * 8);
  return make_text(std::string(strip_text(self.bytes, characters, Left, Right)), budget, self.safe);
}

template <bool FromRight>
Value split(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("split", arguments, {"sep", "maxsplit"}, 0);
  const std::string* separator = bound.text(0);
  const std::int64_t limit = bound.integer(1).value_or(-1);
  if (separator == nullptr) {
    if (FromRight && limit >= 0) {
      fail_unsupported("rsplit() at white space with a limit");
    }
    return list_of_texts(split_at_spaces(self.bytes, limit < 0 ? -1 : limit, budget), self.safe, budget);
  }
  if (separator->empty()) {
    fail("empty separator");
  }
  const auto parts = FromRight ? split_from_right(self.bytes, *separator, limit, budget)
                               : split_at(self.bytes, *separator, limit < 0 ? -1 : limit, budget);
  return list_of_texts(parts, self.safe, budget);
}

template <bool FromRight>
Value partition(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string* separator = bound.text(0);
  if (separator == nullptr || separator->empty()) {
    fail(separator == nullptr ? "must be str, not NoneType" : "empty separator");
  }
  const std::string_view text = self.bytes;
  const std::size_t found = FromRight ? text.rfind(*separator) : find_bytes(text, *separator);
  budget.charge_steps(FromRight ? static_cast<std::int64_t>(text.size() * separator->size() / 16) : 0);
  if (found == std::string_view::npos) {
    return list_of_texts(FromRight ? std::vector<std::string_view>{"", "", text} : std::vector<std::string_view>{text, "", ""},
                         self.safe, budget, SequenceKind::kTuple);
  }
  return list_of_texts({text.substr(0, found), *separator, text.substr(found + separator->size())}, self.safe, budget,
                       SequenceKind::kTuple);
}

Value splitlines(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("splitlines", arguments, {"keepends"}, 0);
  return list_of_texts(split_lines(self.bytes, bound.truthy(0), budget), self.safe, budget);
}

/// text[start:end] for the methods that look at a part of their text only. Nothing when `start` lies behind the end.
struct Window {
  std::string_view text;
  std::int64_t first;  ///< In code points.
};

std::optional<Window> window(const Text& self, const Bound& bound, std::size_t first_index) {
  const std::string_view text = self.bytes;
  if (!bound.has(first_index)) {
    return Window{text, 0};
  }
  const auto size = static_cast<std::int64_t>(count_code_points(text));
  const auto place = [&](std::int64_t index) { return index < 0 ? std::max<std::int64_t>(index + size, 0) : index; };
  const std::int64_t start = place(bound.integer(first_index).value_or(0));
  const std::int64_t stop = std::min(place(bound.integer(first_index + 1).value_or(size)), size);
  if (start > stop) {
    return std::nullopt;
  }
  const std::size_t from = code_point_offset(text, static_cast<std::size_t>(start));
  const std::string_view rest = text.substr(from);
  return Window{rest.substr(0, code_point_offset(rest, static_cast<std::size_t>(stop - start))), start};
}

bool matches_end(std::string_view text, std::string_view affix, bool at_start) {
  return text.size() >= affix.size() &&
         (at_start ? text.substr(0, affix.size()) : text.substr(text.size() - affix.size())) == affix;
}

template <bool AtStart>
Value has_affix(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound(AtStart ? "startswith" : "endswith", arguments, {"affix", "start", "end"}, 1);
  const std::optional<Window> part = window(self, bound, 1);
  const Sequence* several = bound[0].as_sequence();
  if (several == nullptr || several->kind != SequenceKind::kTuple) {
    const std::string* affix = bound.text(0);
    if (affix == nullptr) {
      fail(std::string(AtStart ? "startswith" : "endswith") + " first arg must be str or a tuple of str, not NoneType");
    }
    return Value(part.has_value() && matches_end(part->text, *affix, AtStart));
  }
  budget.charge_steps(static_cast<std::int64_t>(several->items.size()));
  for (const Value& item : several->items) {
    if (!item.is_text()) {
      fail("tuple for startswith or endswith must only contain str, not {}", type_name(item));
    }
    if (part.has_value() && matches_end(part->text, item.as_text()->bytes, AtStart)) {
      return Value(true);
    }
  }
  return Value(false);
}

template <bool FromRight, bool MustExist>
Value find(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  const std::string* wanted = bound.text(0);
  if (wanted == nullptr) {
    fail("must be str, not NoneType");
  }
  const std::optional<Window> part = window(self, bound, 1);
  std::size_t found = std::string_view::npos;
  if (part.has_value()) {
    budget.charge_steps(FromRight ? static_cast<std::int64_t>(part->text.size() * wanted->size() / 16) : 0);
    found = FromRight ? part->text.rfind(*wanted) : find_bytes(part->text, *wanted);
  }
  if (found != std::string_view::npos) {
    return Value(part->first + static_cast<std::int64_t>(count_code_points(part->text.substr(0, found))));
  }
  if (MustExist) {
    fail("substring not found");
  }
  return Value(-1);
}

Value count(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  const std::string* wanted = bound.text(0);
  if (wanted == nullptr) {
    fail("must be str, not NoneType");
  }
  const std::optional<Window> part = window(self, bound, 1);
  if (!part.has_value()) {
    return Value(0);
  }
  if (wanted->empty()) {
    return Value(static_cast<std::int64_t>(count_code_points(part->text)) + 1);
  }
  return Value(static_cast<std::int64_t>(split_at(part->text, *wanted, -1, budget).size()) - 1);
}

Value replace(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const std::string* from = bound.text(0);
  const std::string* to = bound.text(1);
  if (from == nullptr || to == nullptr) {
    fail("replace() argument must be str, not NoneType");
  }
  const bool escapes = self.safe && !bound[1].as_text()->safe;
  const std::string replacement = escapes ? escape_html(*to) : *to;
  return Value::text(replace_text(self.bytes, *from, replacement, bound.integer(2).value_or(-1), budget), self.safe);
}

template <std::string (*Convert)(std::string_view)>
Value convert(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound none("this method", arguments, {}, 0);
  budget.charge_steps(static_cast<std::int64_t>(self.bytes.size() / 2));
  return make_text(Convert(self.bytes), budget, self.safe);
}

void refuse_safe(const Text& self, std::string_view method) {
  if (self.safe) {
    fail_unsupported("{}() on text marked as safe", method);
  }
}

Value join(const Text& self, const Arguments& arguments, Budget& budget) {
  refuse_safe(self, "join");
  const Bound bound("join", arguments, {"iterable"}, 1);
  std::string out;
  std::size_t index = 0;
  for (const Value& item : iterate(bound[0], budget)) {
    if (!item.is_text()) {
      fail("sequence item {}: expected str instance, {} found", index, type_name(item));
    }
    budget.charge_bytes(self.bytes.size() + item.as_text()->bytes.size());
    out += index++ == 0 ? "" : self.bytes;
    out += item.as_text()->bytes;
  }
  return Value::text(std::move(out));
}

Value format(const Text& self, const Arguments& arguments, Budget& budget) {
  refuse_safe(self, "format");
  return make_text(format_braces(self.bytes, arguments, budget), budget);
}

enum class Side { kLeft, kRight, kBoth };

template <Side Padding>
Value justify(const Text& self, const Arguments& arguments, Budget& budget) {
  refuse_safe(self, "justify");
  const Bound bound("justify", arguments, {"width", "fillchar"}, 1);
  const std::string* given = bound.text(1);
  const std::string fill = given == nullptr ? " " : *given;
  if (count_code_points(fill) != 1) {
    fail("The fill character must be exactly one character long");
  }
  const std::int64_t width = bound.integer(0).value_or(0);
  const std::int64_t missing = width - static_cast<std::int64_t>(count_code_points(self.bytes));
  if (missing <= 0) {
    return Value::text(self.bytes);
  }
  // Python puts the odd blank of center() on the left when the width is odd.
  const std::int64_t left = Padding == Side::kLeft ? missing : Padding == Side::kRight ? 0 : missing / 2 + (missing & width & 1);
  budget.charge_bytes(static_cast<std::size_t>(std::min<std::int64_t>(missing, std::int64_t{1} << 40)) * fill.size());
  std::string out;
  for (std::int64_t index = 0; index < left; ++index) out += fill;
  out += self.bytes;
  for (std::int64_t index = left; index < missing; ++index) out += fill;
  return Value::text(std::move(out));
}

Value zfill(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const auto missing = bound.integer(0).value_or(0) - static_cast<std::int64_t>(count_code_points(self.bytes));
  const auto zeros = static_cast<std::size_t>(std::clamp<std::int64_t>(missing, 0, std::int64_t{1} << 40));
  budget.charge_bytes(zeros + self.bytes.size());
  const std::size_t sign = !self.bytes.empty() && (self.bytes[0] == '+' || self.bytes[0] == '-') ? 1 : 0;
  return Value::text(self.bytes.substr(0, sign) + std::string(zeros, '0') + self.bytes.substr(sign), self.safe);
}

template <bool AtStart>
Value remove_affix(const Text& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("removeprefix", arguments, {"affix"}, 1);
  const std::string* affix = bound.text(0);
  if (affix == nullptr) {
    fail("removeprefix() argument must be str, not None");
  }
  std::string_view text = self.bytes;
  if (!affix->empty() && matches_end(text, *affix, AtStart)) {
    text = AtStart ? text.substr(affix->size()) : text.substr(0, text.size() - affix->size());
  }
  return make_text(std::string(text), budget, self.safe);
}

Value isspace(const Text& self, const Arguments& arguments, Budget&) {
  const Bound none("isspace", arguments, {}, 0);
  return Value(!self.bytes.empty() && skip_space(self.bytes, 0) == self.bytes.size());
}

struct Entry {
  std::string_view name;
  TextMethod method;
};

constexpr Entry kTextMethods[] = {{"strip", strip<true, true>},
                                  {"lstrip", strip<true, false>},
                                  {"rstrip", strip<false, true>},
                                  {"split", split<false>},
                                  {"rsplit", split<true>},
                                  {"splitlines", splitlines},
                                  {"partition", partition<false>},
                                  {"rpartition", partition<true>},
                                  {"startswith", has_affix<true>},
                                  {"endswith", has_affix<false>},
                                  {"replace", replace},
                                  {"find", find<false, false>},
                                  {"rfind", find<true, false>},
                                  {"index", find<false, true>},
                                  {"rindex", find<true, true>},
                                  {"count", count},
                                  {"upper", convert<to_upper>},
                                  {"lower", convert<to_lower>},
                                  {"title", convert<to_title>},
                                  {"capitalize", convert<capitalize>},
                                  {"join", join},
                                  {"format", format},
                                  {"center", justify<Side::kBoth>},
                                  {"ljust", justify<Side::kRight>},
                                  {"rjust", justify<Side::kLeft>},
                                  {"zfill", zfill},
                                  {"removeprefix", remove_affix<true>},
                                  {"removesuffix", remove_affix<false>},
                                  {"isspace", isspace}};

}  // namespace

TextMethod find_text_method(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTextMethods), std::end(kTextMethods), [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found->method;
}

}  // namespace lynx::text::jinja
