#pragma once

// The GGUF container (versions 2 and 3, little-endian): header, typed metadata, tensor directory. Format facts: the GGUF
// specification in ggml's docs. This file knows the container, not what a llama model keeps in it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace lynx::model {

/// Types of metadata values, numbered as in the file.
enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

/// A metadata value: where its bytes lie. Strings and arrays of strings have been walked, so they can be read without checks.
struct GgufValue {
  GgufType type = GgufType::kUint8;  ///< Of the elements, for an array. Never kArray.
  bool is_array = false;
  std::uint64_t count = 1;
  const std::byte* data = nullptr;
};

struct GgufTensor {
  std::string_view name;
  std::uint32_t type = 0;                  ///< ggml's number.
  int dimensions = 0;                      ///< 1 … 4
  std::array<std::uint64_t, 4> extents{};  ///< Innermost first, all ≥ 1; their product fits 2^48.
  std::uint64_t offset = 0;                ///< Into the data section; a multiple of the alignment.
};

/// A parsed file. Views into the bytes it was parsed from, which must outlive it.
class GgufFile {
 public:
  /// INVALID_ARGUMENT with the reason for anything malformed; UNIMPLEMENTED for other versions, big-endian and split files. Memory
  /// and time are bounded by the size of `bytes`.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// Reads a key if it is there, else leaves *out as it is. INVALID_ARGUMENT, naming the key, when the value has another type or is
  /// out of range. Any integer type will do for an int, either float type for a float.
  Status read(std::string_view key, int* out) const;
  Status read(std::string_view key, float* out) const;
  Status read(std::string_view key, bool* out) const;
  Status read(std::string_view key, std::string_view* out) const;
  Status read(std::string_view key, std::vector<int>* out) const;
  Status read(std::string_view key, std::vector<std::string_view>* out) const;

  /// The same, but a missing key is INVALID_ARGUMENT.
  template <class T>
  Status require(std::string_view key, T* out) const {
    return has(key) ? read(key, out) : missing(key);
  }

  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// Where tensor offsets start; reaches to the end of the file.
  std::span<const std::byte> data() const { return data_; }

 private:
  class Parser;
  const GgufValue* find(std::string_view key) const;
  static Status missing(std::string_view key);

  std::map<std::string_view, GgufValue> values_;  // Ordered: hashes of hostile keys can be made to collide.
  std::vector<GgufTensor> tensors_;
  std::span<const std::byte> data_;
};

}  // namespace lynx::model
