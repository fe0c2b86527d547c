#include "device/host_buffer.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "common/units.h"

namespace lynx {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kLargestBytes = std::size_t{1} << 47;  // The user address space of x86-64.

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Maps `bytes` (whole pages), on a huge-page border if it is large enough to profit; null when refused.
std::byte* map_pages(std::size_t bytes) {
  const std::size_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  if (slack == 0) return begin;
  const std::size_t head =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<std::uintptr_t>(begin);
  if (head > 0) munmap(begin, head);
  if (slack > head) munmap(begin + head + bytes, slack - head);
  madvise(begin + head, bytes, MADV_HUGEPAGE);  // A wish: small pages work too.
  return begin + head;
}

}  // namespace

Result<HostBuffer> HostBuffer::allocate(std::size_t bytes) {
  HostBuffer buffer;
  if (bytes == 0) return buffer;
  std::byte* data = bytes <= kLargestBytes ? map_pages(round_up(bytes, kPageBytes)) : nullptr;
  if (data == nullptr) {
    const std::size_t named = bytes < (std::size_t{1} << 62) ? bytes : std::size_t{1} << 62;
    return resource_exhausted("host memory: the system refused " + format_bytes(static_cast<std::int64_t>(named)));
  }
  buffer.data_ = data;
  buffer.size_ = bytes;
  return buffer;
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, round_up(size_, kPageBytes));
}

}  // namespace lynx
