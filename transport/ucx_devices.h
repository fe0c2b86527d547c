#pragma once

// Which network devices a link may be bound to.

#include <string>
#include <vector>

#include "common/status.h"

namespace lynx::transport {

struct NetDevice {
  std::string name;  ///< As UCX_NET_DEVICES has it: "eth0", "mlx5_0:1".
  bool usable = false;
  std::string why_not;  ///< "is down", "has no address".
};

/// This machine's interfaces and RDMA ports, in the system's order.
std::vector<NetDevice> list_net_devices();

/// Checks a list of names separated by commas. INVALID_ARGUMENT naming one that does not exist or is not usable, and those that
/// are.
Status check_net_devices(const std::string& names, const std::vector<NetDevice>& present);

}  // namespace lynx::transport
