#pragma once

// A Link over UCX: TCP, shared memory within a machine, RDMA where there is some. One UCX worker a lane, since service level and
// traffic class belong to a worker's interfaces; one progress thread for both (docs/adr/0005-ucx-link.md).

#include <memory>
#include <string>

#include "common/status.h"
#include "transport/link.h"

namespace lynx::transport {

struct UcxLinkOptions {
  /// As UCX_NET_DEVICES: names separated by commas, "eth0" or "mlx5_0:1". Empty: the environment's, else all that UCX finds.
  std::string net_devices;
  /// As UCX_TLS: "tcp", "shm", "rc,tcp" … Empty: the environment's, else all for host memory.
  std::string transports;
};

/// A link with its workers open and listening, not started. UCX_… variables of the environment hold where Lynx sets nothing itself
/// (ports, traffic classes, …). INVALID_ARGUMENT naming a network device that does not exist or is not usable, and those that are;
/// UNAVAILABLE with UCX's reason when it cannot be opened. Logs a warning if this UCX's data port does not survive strangers (older
/// than 1.20).
Result<std::unique_ptr<Link>> create_ucx_link(const UcxLinkOptions& options);

}  // namespace lynx::transport
