#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace lynx {

/// Zeroed host memory, page-aligned and backed by huge pages where the kernel grants them. Owns; movable, not copyable.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// RESOURCE_EXHAUSTED, naming the size, when the system refuses.
  static Result<HostBuffer> allocate(std::size_t bytes);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lynx
