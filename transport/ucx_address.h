#pragma once

// UCX takes a worker address apart without checking it: random bytes can end the process. So addresses travel sealed, and only
// what some Lynx node sealed with the same UCX version is given to UCX. The seal finds accidents and foreign bytes; who may send an
// address at all is the control plane's business (its pair secret).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "transport/wire_header.h"

namespace lynx::transport {

struct UcxVersion {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  friend auto operator<=>(const UcxVersion&, const UcxVersion&) = default;

  std::string to_string() const;  ///< "1.22.0"
};

/// Longest worker address that is taken; UCX's own are a few hundred bytes.
inline constexpr std::size_t kUcxAddressBytesMax = 16 << 10;

/// magic "LUCX", format 1, lane, UCX version (3 bytes), length (4 bytes), `address`, CRC-32C of all that.
std::string seal_address(Lane lane, const UcxVersion& version, std::span<const std::byte> address);

/// The worker address in `sealed`, a part of it. INVALID_ARGUMENT naming what is wrong: size, magic, CRC, another lane's address,
/// another UCX version.
Result<std::string_view> unseal_address(Lane lane, const UcxVersion& version, std::string_view sealed);

}  // namespace lynx::transport
