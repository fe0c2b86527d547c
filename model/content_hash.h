#pragma once

#include <xxhash.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include <spdlog/fmt/fmt.h>

namespace lynx::model {

/// XXH3, 128 bits, of what is added, in order. It names content; it proves nothing against somebody who forges it.
class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

  ContentHash& add_bytes(const void* data, std::size_t size) {
    XXH3_128bits_update(state_.get(), data, size);
    return *this;
  }

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) ContentHash& add(T value) { return add_bytes(&value, sizeof value); }

  /// Its size goes in too, so that no two lists of texts run together to the same bytes.
  ContentHash& add(const std::string& text) { return add(text.size()).add_bytes(text.data(), text.size()); }

  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace lynx::model
