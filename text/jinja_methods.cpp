#include "text/jinja_methods.h"

#include <algorithm>
#include <iterator>

#include "text/jinja_operators.h"

namespace lynx::text::jinja {

namespace {

constexpr std::string_view kUnsupportedTextMembers[] = {
    "casefold",     "encode",  "expandtabs", "format_map",  "isalnum", "isalpha", "isascii",   "isdecimal", "isdigit",
    "isidentifier", "islower", "isnumeric",  "isprintable", "istitle", "isupper", "maketrans", "swapcase",  "translate"};
constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kMutatingDictMembers[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kUnsupportedDictMembers[] = {"fromkeys"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};
constexpr std::string_view kMutatingListMembers[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view kUnsupportedNumberMembers[] = {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
                                                          "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
                                                          "numerator",        "real",      "to_bytes"};
constexpr std::string_view kUnsupportedMethods[] = {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes",
                                                    "fromhex",          "hex",       "is_integer", "to_bytes"};

template <std::size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

MemberKind sequence_member_kind(const Sequence& sequence, std::string_view name) {
  switch (sequence.kind) {
    case SequenceKind::kList:
      return among(kListMethods, name)           ? MemberKind::kMethod
             : among(kMutatingListMembers, name) ? MemberKind::kMutating
                                                 : MemberKind::kNone;
    case SequenceKind::kTuple: return among(kTupleMethods, name) ? MemberKind::kMethod : MemberKind::kNone;
    case SequenceKind::kRange:
      return among(kTupleMethods, name) || name == "start" || name == "stop" || name == "step" ? MemberKind::kUnsupported
                                                                                               : MemberKind::kNone;
    case SequenceKind::kDictKeys:
    case SequenceKind::kDictValues:
    case SequenceKind::kDictItems: return name == "isdisjoint" || name == "mapping" ? MemberKind::kUnsupported : MemberKind::kNone;
    case SequenceKind::kGenerator: break;
  }
  return name == "close" || name == "send" || name == "throw" ? MemberKind::kUnsupported : MemberKind::kNone;
}

}  // namespace

MemberKind member_kind(const Value& object, std::string_view name) {
  if (const Text* text = object.as_text()) {
    const bool markup_only = text->safe && (name == "unescape" || name == "striptags" || name == "escape");
    return find_text_method(name) != nullptr                     ? MemberKind::kMethod
           : among(kUnsupportedTextMembers, name) || markup_only ? MemberKind::kUnsupported
                                                                 : MemberKind::kNone;
  }
  if (object.as_dict() != nullptr) {
    return among(kDictMethods, name)              ? MemberKind::kMethod
           : among(kMutatingDictMembers, name)    ? MemberKind::kMutating
           : among(kUnsupportedDictMembers, name) ? MemberKind::kUnsupported
                                                  : MemberKind::kNone;
  }
  if (const Sequence* sequence = object.as_sequence()) {
    return sequence_member_kind(*sequence, name);
  }
  if (object.is_number()) {
    return among(kUnsupportedNumberMembers, name) ? MemberKind::kUnsupported : MemberKind::kNone;
  }
  if (const Function* function = object.as_function(); function != nullptr && function->kind == FunctionKind::kMacro) {
    return name == "name" || name == "arguments" || name == "caller" || name.substr(0, 6) == "catch_" ? MemberKind::kUnsupported
                                                                                                      : MemberKind::kNone;
  }
  return MemberKind::kNone;
}

bool is_unsupported_method(std::string_view name) {
  return among(kUnsupportedTextMembers, name) || among(kUnsupportedDictMembers, name) || among(kUnsupportedMethods, name);
}

namespace {

Value call_dict_method(const Value& self, std::string_view name, const Arguments& arguments, Budget& budget) {
  const Dict& dict = *self.as_dict();
  if (name == "get") {
    const Bound bound("get", arguments, {"key", "default"}, 1);
    // `in` refuses the same keys as get() does.
    const Value* found = contains(self, bound[0], budget) ? dict.find(bound[0], budget) : nullptr;
    return found != nullptr ? *found : bound.has(1) ? bound[1] : Value::none();
  }
  const Bound none(name, arguments, {}, 0);
  if (name == "copy") {
    return self;
  }
  const SequenceKind kind = name == "keys"     ? SequenceKind::kDictKeys
                            : name == "values" ? SequenceKind::kDictValues
                                               : SequenceKind::kDictItems;
  budget.charge_items(dict.entries.size());
  std::vector<Value> items;
  items.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    switch (kind) {
      case SequenceKind::kDictKeys: items.push_back(key); break;
      case SequenceKind::kDictValues: items.push_back(value); break;
      default: items.push_back(make_sequence(SequenceKind::kTuple, {key, value}, budget));
    }
  }
  return make_sequence(kind, std::move(items), budget);
}

Value call_list_method(const Value& self, std::string_view name, const Arguments& arguments, Budget& budget) {
  if (name == "copy") {
    const Bound none(name, arguments, {}, 0);
    return self;
  }
  const Bound bound(name, arguments, {"value"}, 1);
  const auto& items = self.as_sequence()->items;
  const auto matches = [&](const Value& item) { return equal(item, bound[0], budget); };
  if (name == "count") {
    return Value(static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), matches)));
  }
  const auto found = std::find_if(items.begin(), items.end(), matches);
  if (found == items.end()) {
    fail("the value is not in the list");
  }
  return Value(static_cast<std::int64_t>(found - items.begin()));
}

}  // namespace

Value call_method(const Value& self, std::string_view name, const Arguments& arguments, Budget& budget) {
  if (const Text* text = self.as_text()) {
    budget.charge_reading(text->bytes.size());
    return find_text_method(name)(*text, arguments, budget);
  }
  return self.as_dict() != nullptr ? call_dict_method(self, name, arguments, budget)
                                   : call_list_method(self, name, arguments, budget);
}

}  // namespace lynx::text::jinja
