#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lynx::model::testing {

/// Writes GGUF bytes, right or deliberately wrong. Keys and tensors keep their order; set() on a known key replaces it.
class GgufBuilder {
 public:
  void set_u32(const std::string& key, std::uint32_t value);
  void set_i32(const std::string& key, std::int32_t value);
  void set_u64(const std::string& key, std::uint64_t value);
  void set_f32(const std::string& key, float value);
  void set_bool(const std::string& key, std::uint8_t value);
  void set_string(const std::string& key, std::string_view value);
  void set_strings(const std::string& key, const std::vector<std::string>& values);
  void set_i32s(const std::string& key, const std::vector<std::int32_t>& values);
  /// A value with its type number, as bytes.
  void set_raw(const std::string& key, std::uint32_t type, const std::string& bytes);
  void erase(const std::string& key);
  /// Writes the last key a second time.
  void duplicate_last_key() { keys_.push_back(keys_.back()); }

  /// Extents innermost first. The data is `bytes` bytes of a pattern, placed behind the earlier tensors.
  void add_tensor(const std::string& name, std::vector<std::uint64_t> extents, std::uint32_t type, std::size_t bytes);
  void erase_tensor(const std::string& name);

  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> extents;
    std::uint32_t type;
    std::size_t bytes;
    std::int64_t offset = -1;  ///< −1: the next aligned place.
  };
  /// For damage to the directory. The tensor must be there.
  Tensor& tensor(const std::string& name);

  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< Used for layout; written only if set as a key.
  std::size_t cut_bytes = 0;     ///< Taken off the end.

  std::vector<std::byte> build() const;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;  ///< Key and its encoded type and value.
  std::vector<Tensor> tensors_;
};

/// A complete llama model of one layer (hidden 32, 2 heads, 1 KV head, 8 tokens, mixed tensor types).
GgufBuilder tiny_gguf();

/// As bytes of a string, in file order.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace lynx::model::testing
