#include "model/hf_json.h"

#include <cstdint>
#include <exception>
#include <limits>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "common/units.h"
#include "model/mapped_file.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr int kMostDepth = 32;

/// Stops the parser, which knows no bounds of its own.
class Refusal : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Watches the parser: nesting, and keys that would overwrite each other.
class Guard {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMostDepth) throw Refusal("nested too deeply");
    if (event == json::parse_event_t::object_start) {
      keys_.push_back(0);
    } else if (event == json::parse_event_t::key) {
      ++keys_.back();
    } else if (event == json::parse_event_t::object_end) {
      if (parsed.size() != keys_.back()) throw Refusal(duplicate_message(parsed));
      keys_.pop_back();
    }
    return true;
  }

 private:
  static std::string duplicate_message(const json& object) {
    return object.empty() ? "an object has a duplicate key"
                          : fmt::format("a key appears twice in the object that starts with '{:.40}'", object.begin().key());
  }

  std::vector<std::size_t> keys_;
};

Status wrong_type(const char* key, std::string_view expected) {
  return invalid_argument(fmt::format("'{}': expected {}", key, expected));
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  Guard guard;
  try {
    return json::parse(text.begin(), text.end(),
                       [&guard](int depth, json::parse_event_t event, json& parsed) { return guard(depth, event, parsed); });
  } catch (const Refusal& refusal) {
    return invalid_argument(refusal.what());
  } catch (const json::parse_error& error) {
    return invalid_argument(fmt::format("not valid JSON at byte {}", error.byte));
  } catch (const std::exception& error) {
    return invalid_argument(fmt::format("not usable JSON: {:.100}", error.what()));
  }
}

Result<std::optional<json>> read_json_file(const std::string& directory, std::string_view name, std::size_t most_bytes) {
  const std::string path = fmt::format("{}/{}", directory, name);
  auto file = MappedFile::open(path);
  if (file.status().code() == Code::kNotFound) return std::optional<json>{};
  if (!file.ok()) return file.status();
  if (file->bytes().size() > most_bytes) {
    return invalid_argument(fmt::format("{}: more than {}", path, format_bytes(static_cast<std::int64_t>(most_bytes))));
  }
  auto parsed = parse_json(file->text());
  if (!parsed.ok()) return parsed.status().with_context(path);
  return std::optional<json>(std::move(parsed).value());
}

const json* find_member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int> as_int(const json& value) {
  if (value.is_number_unsigned()) {
    const auto wide = value.get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return std::nullopt;
    return static_cast<int>(wide);
  }
  if (!value.is_number_integer()) return std::nullopt;
  const auto wide = value.get<std::int64_t>();
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(wide);
}

Status read_member(const json& object, const char* key, int* out) {
  const json* member = find_member(object, key);
  if (member == nullptr) return {};
  const auto integer = as_int(*member);
  if (!integer) return wrong_type(key, "an integer of 32 bits");
  *out = *integer;
  return {};
}

Status read_member(const json& object, const char* key, float* out) {
  const json* member = find_member(object, key);
  if (member == nullptr) return {};
  if (!member->is_number()) return wrong_type(key, "a number");
  *out = static_cast<float>(member->get<double>());
  return {};
}

Status read_member(const json& object, const char* key, bool* out) {
  const json* member = find_member(object, key);
  if (member == nullptr) return {};
  if (!member->is_boolean()) return wrong_type(key, "true or false");
  *out = member->get<bool>();
  return {};
}

Status read_member(const json& object, const char* key, std::string* out) {
  const json* member = find_member(object, key);
  if (member == nullptr) return {};
  if (!member->is_string()) return wrong_type(key, "a string");
  *out = member->get_ref<const std::string&>();
  return {};
}

}  // namespace lynx::model
