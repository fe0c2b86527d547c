#pragma once

// Memory that UCX has registered. Private to ucx_*.cpp.

#include <cstddef>
#include <memory>
#include <span>

#include "common/status.h"
#include "device/host_buffer.h"
#include "transport/ucx_handles.h"

namespace lynx::transport {

class UcxRegion {
 public:
  /// RESOURCE_EXHAUSTED naming the size, and the memlock limit where that is in the way.
  static Result<std::unique_ptr<UcxRegion>> create(ucp_context* context, std::size_t bytes);
  ~UcxRegion() { ucp_mem_unmap(context_, handle_); }
  UcxRegion(const UcxRegion&) = delete;
  UcxRegion& operator=(const UcxRegion&) = delete;

  std::span<std::byte> span() { return memory_.span(); }
  bool holds(std::span<const std::byte> bytes) const;
  ucp_mem_h handle() const { return handle_; }

 private:
  UcxRegion(ucp_context* context, HostBuffer memory, ucp_mem_h handle)
      : context_(context), memory_(std::move(memory)), handle_(handle) {}

  ucp_context* context_;
  HostBuffer memory_;
  ucp_mem_h handle_;
};

}  // namespace lynx::transport
