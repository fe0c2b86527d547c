#include "transport/ucx_devices.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

namespace lynx::transport {
namespace {

NetDevice& find_or_add(std::vector<NetDevice>& devices, const std::string& name) {
  auto found = std::find_if(devices.begin(), devices.end(), [&](const NetDevice& device) { return device.name == name; });
  if (found != devices.end()) return *found;
  return devices.emplace_back(NetDevice{name, false, "has no address"});
}

void add_interfaces(std::vector<NetDevice>& devices) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    NetDevice& device = find_or_add(devices, entry->ifa_name);
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_RUNNING) == 0) {
      device.why_not = "is down";
      continue;
    }
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6) device.usable = true;
  }
}

void add_rdma_ports(std::vector<NetDevice>& devices) {
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    std::error_code port_error;
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", port_error)) {
      std::string state;
      std::getline(std::ifstream(port.path() / "state"), state);  // "4: ACTIVE"
      const bool active = state.find("ACTIVE") != std::string::npos;
      devices.push_back({device.path().filename().string() + ":" + port.path().filename().string(), active, "is not active"});
    }
  }
}

std::string usable_names(const std::vector<NetDevice>& devices) {
  std::string names;
  for (const NetDevice& device : devices) {
    if (device.usable) names += (names.empty() ? "" : ", ") + device.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::vector<NetDevice> list_net_devices() {
  std::vector<NetDevice> devices;
  add_interfaces(devices);
  add_rdma_ports(devices);
  return devices;
}

Status check_net_devices(const std::string& names, const std::vector<NetDevice>& present) {
  std::size_t begin = 0;
  while (begin <= names.size()) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 1;
    auto found = std::find_if(present.begin(), present.end(), [&](const NetDevice& device) { return device.name == name; });
    if (found == present.end()) {
      return invalid_argument(fmt::format("network device '{}' does not exist; usable ones: {}", name, usable_names(present)));
    }
    if (!found->usable) {
      return invalid_argument(fmt::format("network device '{}' {}; usable ones: {}", name, found->why_not, usable_names(present)));
    }
  }
  return {};
}

}  // namespace lynx::transport
