// GgufFile's readers of single keys.

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "model/byte_cursor.h"
#include "model/gguf.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

Status wrong_type(std::string_view key, std::string_view expected) {
  return invalid_argument(fmt::format("metadata key {}: expected {}", quote(key), expected));
}

Status out_of_range(std::string_view key) {
  return invalid_argument(fmt::format("metadata key {}: the value is out of range", quote(key)));
}

template <class T>
T value_at(const GgufValue& value, std::size_t index) {
  T out{};
  std::memcpy(&out, value.data + index * sizeof(T), sizeof(T));
  return out;
}

/// Element `index` of an integer value; nullopt when it does not fit an int.
std::optional<int> integer_at(const GgufValue& value, std::size_t index) {
  std::int64_t wide = 0;
  switch (value.type) {
    case GgufType::kUint8: wide = value_at<std::uint8_t>(value, index); break;
    case GgufType::kInt8: wide = value_at<std::int8_t>(value, index); break;
    case GgufType::kUint16: wide = value_at<std::uint16_t>(value, index); break;
    case GgufType::kInt16: wide = value_at<std::int16_t>(value, index); break;
    case GgufType::kUint32: wide = value_at<std::uint32_t>(value, index); break;
    case GgufType::kInt32: wide = value_at<std::int32_t>(value, index); break;
    case GgufType::kInt64: wide = value_at<std::int64_t>(value, index); break;
    case GgufType::kUint64: {
      const auto raw = value_at<std::uint64_t>(value, index);
      if (raw > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return std::nullopt;
      wide = static_cast<std::int64_t>(raw);
      break;
    }
    default: return std::nullopt;
  }
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(wide);
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64: return true;
    default: return false;
  }
}

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Status GgufFile::missing(std::string_view key) {
  return invalid_argument(fmt::format("metadata key {}: missing", quote(key)));
}

Status GgufFile::read(std::string_view key, int* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array || !is_integer(value->type)) return wrong_type(key, "a single integer");
  const auto integer = integer_at(*value, 0);
  if (!integer) return out_of_range(key);
  *out = *integer;
  return {};
}

Status GgufFile::read(std::string_view key, float* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array) return wrong_type(key, "a single number");
  if (value->type == GgufType::kFloat32) {
    *out = value_at<float>(*value, 0);
  } else if (value->type == GgufType::kFloat64) {
    *out = static_cast<float>(value_at<double>(*value, 0));
  } else {
    return wrong_type(key, "a floating-point number");
  }
  return {};
}

Status GgufFile::read(std::string_view key, bool* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array || value->type != GgufType::kBool) return wrong_type(key, "a boolean");
  const auto raw = value_at<std::uint8_t>(*value, 0);
  if (raw > 1) return out_of_range(key);
  *out = raw == 1;
  return {};
}

Status GgufFile::read(std::string_view key, std::string_view* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array || value->type != GgufType::kString) return wrong_type(key, "a string");
  const auto length = value_at<std::uint64_t>(*value, 0);
  *out = {reinterpret_cast<const char*>(value->data + sizeof length), static_cast<std::size_t>(length)};
  return {};
}

Status GgufFile::read(std::string_view key, std::vector<int>* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array || !is_integer(value->type)) return wrong_type(key, "an array of integers");
  out->clear();
  out->reserve(static_cast<std::size_t>(value->count));
  for (std::size_t i = 0; i < value->count; ++i) {
    const auto integer = integer_at(*value, i);
    if (!integer) return out_of_range(key);
    out->push_back(*integer);
  }
  return {};
}

Status GgufFile::read(std::string_view key, std::vector<std::string_view>* out) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array || value->type != GgufType::kString) return wrong_type(key, "an array of strings");
  out->clear();
  out->reserve(static_cast<std::size_t>(value->count));  // Each string takes at least eight bytes of the file.
  const std::byte* at = value->data;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    std::uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    out->emplace_back(reinterpret_cast<const char*>(at + sizeof length), static_cast<std::size_t>(length));
    at += sizeof length + length;
  }
  return {};
}

}  // namespace lynx::model
