#include "transport/ucx_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <utility>

#include "common/units.h"

namespace lynx::transport {
namespace {

std::string readable(std::size_t bytes) {
  return format_bytes(static_cast<std::int64_t>(bytes));
}

Status registration_error(std::size_t bytes, ucs_status_t status) {
  std::string what = fmt::format("{} cannot be registered for the network", readable(bytes));
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    what += fmt::format(" (the memlock limit, ulimit -l or LimitMEMLOCK=, is {})", readable(limit.rlim_cur));
  }
  return ucx_error(Code::kResourceExhausted, what, status);
}

}  // namespace

Result<std::unique_ptr<UcxRegion>> UcxRegion::create(ucp_context* context, std::size_t bytes) {
  LYNX_TRY(HostBuffer memory, HostBuffer::allocate(bytes));
#if defined(MADV_POPULATE_WRITE)
  madvise(memory.data(), bytes, MADV_POPULATE_WRITE);  // A wish: else the first send pays for the pages.
#endif
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = bytes;
  ucp_mem_h handle = nullptr;
  if (ucs_status_t status = ucp_mem_map(context, &params, &handle); status != UCS_OK) return registration_error(bytes, status);
  return std::unique_ptr<UcxRegion>(new UcxRegion(context, std::move(memory), handle));
}

bool UcxRegion::holds(std::span<const std::byte> bytes) const {
  return bytes.data() >= memory_.data() && bytes.data() + bytes.size() <= memory_.data() + memory_.size();
}

}  // namespace lynx::transport
