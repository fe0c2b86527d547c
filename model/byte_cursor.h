#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace lynx::model {

/// Reads little-endian values one after the other out of untrusted bytes. A read that does not fit returns false and moves nothing.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }
  const std::byte* here() const { return bytes_.data() + offset_; }

  template <class T>
  bool read(T* out) {
    static_assert(std::is_arithmetic_v<T>);
    if (left() < sizeof(T)) return false;
    std::memcpy(out, here(), sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  /// A length of 64 bits, then as many bytes.
  bool read_string(std::string_view* out) {
    ByteCursor ahead = *this;
    std::uint64_t length = 0;
    if (!ahead.read(&length) || length > ahead.left()) return false;
    *out = {reinterpret_cast<const char*>(ahead.here()), static_cast<std::size_t>(length)};
    offset_ = ahead.offset_ + static_cast<std::size_t>(length);
    return true;
  }

  bool skip(std::uint64_t bytes) {
    if (bytes > left()) return false;
    offset_ += static_cast<std::size_t>(bytes);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

}  // namespace lynx::model
