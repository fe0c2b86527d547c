#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "transport/ucx_handles.h"

namespace lynx::transport {
namespace {

/// "rc_mlx5" -> "rc": the family, which is what people ask for.
std::string family(const std::string& transport) {
  for (const char* shared : {"posix", "sysv", "xpmem"}) {
    if (transport == shared) return "shm";
  }
  return transport.substr(0, transport.find('_'));
}

#if UCP_API_VERSION >= UCP_VERSION(1, 15)

// The first lane is the one that active messages take; later ones serve rendezvous and remote access.
LinkInfo first_lane(ucp_ep* endpoint) {
  std::array<ucp_transport_entry_t, 16> lanes{};
  ucp_ep_attr_t attributes{};
  attributes.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
  attributes.transports.entries = lanes.data();
  attributes.transports.num_entries = lanes.size();
  attributes.transports.entry_size = sizeof lanes[0];
  if (ucp_ep_query(endpoint, &attributes) != UCS_OK || attributes.transports.num_entries == 0) return {};
  return {"", family(lanes[0].transport_name), lanes[0].device_name};
}

#else

// Older UCX tells people only: "#  lane[0]:  2:tcp/lo.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup".
LinkInfo first_lane(ucp_ep* endpoint) {
  char* raw = nullptr;
  std::size_t bytes = 0;
  std::FILE* stream = open_memstream(&raw, &bytes);
  if (stream == nullptr) return {};
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string text(raw, bytes);
  std::free(raw);
  const std::size_t lane = text.find("lane[0]:");
  if (lane == std::string::npos) return {};
  const std::size_t colon = text.find(':', lane + 8);
  const std::size_t slash = text.find('/', lane);
  const std::size_t dot = text.find_first_of(" \n", slash);
  if (colon == std::string::npos || slash == std::string::npos || slash < colon || dot == std::string::npos) return {};
  const std::string device = text.substr(slash + 1, dot - slash - 1);
  return {"", family(text.substr(colon + 1, slash - colon - 1)), device.substr(0, device.rfind('.'))};
}

#endif

}  // namespace

LinkInfo endpoint_info(ucp_ep* endpoint) {
  return endpoint == nullptr ? LinkInfo{} : first_lane(endpoint);
}

}  // namespace lynx::transport
