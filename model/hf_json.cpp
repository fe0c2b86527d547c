#include "model/hf_json.h"

#include <cstdint>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/units.h"
#include "model/mapped_file.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr std::size_t kMostDepth = 32;

/// Builds the tree and watches over it: nesting, and keys that would overwrite each other. (The library's own parser knows no
/// bounds, and with a callback it takes quadratic time on lists of objects.)
class TreeBuilder final : public nlohmann::json_sax<json> {
 public:
  Result<json> take(bool complete) {
    if (!complete) return invalid_argument(refusal_);
    return std::move(root_);
  }

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return put(value) != nullptr; }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return refuse("binary values"); }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place, added] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    value_ = &place->second;
    return added || refuse(fmt::format("key {} appears twice in one object", quote(name)));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  bool refuse(std::string reason) {
    refusal_ = std::move(reason);
    return false;
  }

  /// Places a value where the parser is: the root, the end of a list, or behind the last key. An open list does not grow while a
  /// value inside it is open, so the pointers in open_ hold.
  json* put(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    *value_ = std::move(value);
    return value_;
  }

  bool open(json container) {
    if (open_.size() == kMostDepth) return refuse("nested too deeply");
    open_.push_back(put(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  json* value_ = nullptr;
  std::string refusal_;
};

Status wrong_type(const char* key, std::string_view expected) {
  return invalid_argument(fmt::format("'{}': expected {}", key, expected));
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  TreeBuilder builder;
  try {
    return builder.take(json::sax_parse(text.begin(), text.end(), &builder));
  } catch (const std::exception& error) {  // Memory.
    return resource_exhausted(fmt::format("JSON of {} bytes: {}", text.size(), error.what()));
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
