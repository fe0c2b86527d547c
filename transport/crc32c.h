#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lynx::transport {

/// CRC-32C (Castagnoli; RFC 3720 appendix B.4) of `bytes`, continuing from `crc` (0 to start). Uses SSE4.2 where the processor has
/// it.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

}  // namespace lynx::transport
