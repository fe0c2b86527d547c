#include "text/jinja_functions.h"

#include <array>

#include "text/jinja_format.h"

namespace lynx::text::jinja {

namespace {

/// jinja2's sandbox has the same limit.
constexpr std::int64_t kMaxRange = 100'000;

std::int64_t range_bound(const Value& value) {
  require_defined(value);
  if (!value.is_integer()) {
    fail("'{}' object cannot be interpreted as an integer", type_name(value));
  }
  return value.integer();
}

Value make_range(const Arguments& arguments, Budget& budget) {
  const std::size_t count = arguments.positional.size();
  if (!arguments.named.empty()) {
    fail("range() takes no keyword arguments");
  }
  if (count < 1 || count > 3) {
    fail("range expected at {}, got {}", count < 1 ? "least 1 argument" : "most 3 arguments", count);
  }
  const std::int64_t start = count == 1 ? 0 : range_bound(arguments.positional[0]);
  const std::int64_t stop = range_bound(arguments.positional[count == 1 ? 0 : 1]);
  const std::int64_t step = count == 3 ? range_bound(arguments.positional[2]) : 1;
  if (step == 0) {
    fail("range() arg 3 must not be zero");
  }
  std::vector<Value> items;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(items.size()) == kMaxRange) {
      fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) {
      break;
    }
  }
  return make_sequence(SequenceKind::kRange, std::move(items), budget);
}

/// dict(mapping or pairs, name=value…).
Value make_dict_of(const Arguments& arguments, Budget& budget) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) {
    fail("dict expected at most 1 argument, got {}", arguments.positional.size());
  }
  for (const Value& source : arguments.positional) {
    require_defined(source);
    if (const Dict* dict = source.as_dict()) {
      entries = dict->entries;
      continue;
    }
    for (const Value& item : iterate(source, budget)) {
      std::vector<Value> pair = iterate(item, budget);
      if (pair.size() != 2) {
        fail("dictionary update sequence element has length {}; 2 is required", pair.size());
      }
      entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(Value::text(name), value);
  }
  return make_dict(std::move(entries), budget);
}

Value make_namespace(const Arguments& arguments, Runtime& runtime) {
  const Value attributes = make_dict_of(arguments, runtime.budget);
  Namespace& space = runtime.namespaces.emplace_back();
  for (const auto& [name, value] : attributes.as_dict()->entries) {
    if (!name.is_text()) {
      fail("a namespace's attributes need names, not {}", type_name(name));
    }
    space.set(name.as_text()->bytes, value);
  }
  return Value(&space);
}

[[noreturn]] void raise_exception(const Arguments& arguments, Budget& budget) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Error(invalid_argument(to_text(bound[0], budget)), true);
}

Value strftime_now(const Arguments& arguments, const Runtime& runtime) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string* format = bound.text(0);
  if (format == nullptr) {
    fail("strftime() argument 1 must be str, not None");
  }
  if (format->find('\0') != std::string::npos) {
    fail("embedded null character");
  }
  // Microseconds and the zone of a time without one, as Python's datetime prints them; the rest is the C library's.
  std::string prepared;
  for (std::size_t at = 0; at < format->size(); ++at) {
    const char letter = (*format)[at] == '%' && at + 1 < format->size() ? (*format)[at + 1] : '\0';
    if (letter == 'f') {
      prepared += "000000";
    } else if (letter != 'z' && letter != 'Z') {
      prepared += format->substr(at, letter == '\0' ? 1 : 2);
    }
    at += letter == '\0' ? 0 : 1;
  }
  // The mark tells an empty result from one that does not fit.
  prepared += '.';
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), prepared.c_str(), &runtime.now);
  if (size == 0) {
    fail("strftime_now: the result is longer than {} bytes", buffer.size());
  }
  return Value::text(std::string(buffer.data(), size - 1));
}

}  // namespace

std::vector<std::pair<std::string, Value>> global_functions() {
  static constexpr std::pair<std::string_view, FunctionKind> kGlobals[] = {{"range", FunctionKind::kRange},
                                                                           {"namespace", FunctionKind::kNamespace},
                                                                           {"dict", FunctionKind::kDict},
                                                                           {"raise_exception", FunctionKind::kRaiseException},
                                                                           {"strftime_now", FunctionKind::kStrftimeNow}};
  std::vector<std::pair<std::string, Value>> globals;
  for (const auto& [name, kind] : kGlobals) {
    auto function = std::make_shared<const Function>(Function{kind, std::string(name), nullptr, nullptr});
    globals.emplace_back(std::string(name), Value(std::move(function)));
  }
  return globals;
}

Value call_global(FunctionKind kind, const Arguments& arguments, Runtime& runtime) {
  switch (kind) {
    case FunctionKind::kRange: return make_range(arguments, runtime.budget);
    case FunctionKind::kNamespace: return make_namespace(arguments, runtime);
    case FunctionKind::kDict: return make_dict_of(arguments, runtime.budget);
    case FunctionKind::kRaiseException: raise_exception(arguments, runtime.budget);
    case FunctionKind::kStrftimeNow: return strftime_now(arguments, runtime);
    case FunctionKind::kMacro:
    case FunctionKind::kMethod: break;
  }
  throw Error(internal_error("not a global function"));
}

}  // namespace lynx::text::jinja
