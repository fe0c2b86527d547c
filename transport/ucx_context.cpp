#include <fmt/format.h>

#include <cstdlib>

#include "transport/ucx_handles.h"

namespace lynx::transport {
namespace {

struct UcxConfigDeleter {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using UcxConfig = std::unique_ptr<ucp_config_t, UcxConfigDeleter>;

struct Setting {
  const char* name;
  const char* value;
};

// Both nodes must agree on some of these, and finding dead peers rests on others: the environment does not change them.
constexpr Setting kSettings[] = {
    {"TCP_CM_REUSEADDR", "y"},
    {"KEEPALIVE_INTERVAL", "1s"},
    {"TCP_USER_TIMEOUT", "3s"},
    {"MM_ERROR_HANDLING", "y"},
    {"POSIX_ERROR_HANDLING", "y"},
    {"SYSV_ERROR_HANDLING", "y"},
    {"RNDV_THRESH", "inf"},
    // One socket event a poll: in a batch, handling one can free the endpoint of a later one, which UCX then uses (seen as crashes
    // when peers connect anew right after a disconnect).
    {"TCP_MAX_POLL", "1"},
    // A chunk of 64 KiB is one fragment over TCP: the receiver is shown it where it came in, put together from nothing.
    {"TCP_TX_SEG_SIZE", "72K"},
    {"TCP_RX_SEG_SIZE", "128K"},
    // UCX counts the bytes of a shared-memory fragment in 16 bits, and does not check: never 64K or more. 33K take 32 KiB and the
    // headers; 64 of them in flight are enough and cost 2 MiB a worker.
    {"POSIX_SEG_SIZE", "33K"},
    {"SYSV_SEG_SIZE", "33K"},
    {"POSIX_FIFO_SIZE", "64"},
    {"SYSV_FIFO_SIZE", "64"},
};

// 1.13 knows a transport's settings by their bare names and 1.22 by prefixed ones; each ignores the other.
void apply(ucp_config_t* config, const std::string& name, const std::string& value) {
  ucp_config_modify(config, name.c_str(), value.c_str());
  ucp_config_modify(config, ("UCX_" + name).c_str(), value.c_str());
}

std::string named(const UcxLinkOptions& options) {
  std::string text;
  if (!options.transports.empty()) text += fmt::format(" with transports '{}'", options.transports);
  if (!options.net_devices.empty()) text += fmt::format(" on network devices '{}'", options.net_devices);
  return text;
}

}  // namespace

Status ucx_error(Code code, std::string_view what, ucs_status_t status) {
  return {code, fmt::format("{}: {}", what, ucs_status_string(status))};
}

UcxVersion ucx_version() {
  UcxVersion version;
  ucp_get_version(&version.major, &version.minor, &version.release);
  return version;
}

Result<UcxContext> open_context(const UcxLinkOptions& options) {
  ucp_config_t* raw = nullptr;
  if (ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK) {
    return ucx_error(Code::kInvalidArgument, "a UCX_… variable of the environment", status);
  }
  const UcxConfig config(raw);
  for (const Setting& setting : kSettings) apply(config.get(), setting.name, setting.value);
  if (!options.net_devices.empty()) apply(config.get(), "NET_DEVICES", options.net_devices);
  if (!options.transports.empty()) {
    apply(config.get(), "TLS", options.transports);
  } else if (std::getenv("UCX_TLS") == nullptr) {
    apply(config.get(), "TLS", "^cuda");  // Payloads are in host memory; a CUDA context costs hundreds of MB.
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "lynx";
  ucp_context_h context = nullptr;
  if (ucs_status_t status = ucp_init(&params, config.get(), &context); status != UCS_OK) {
    return ucx_error(Code::kUnavailable, "UCX cannot be opened" + named(options), status);
  }
  return UcxContext(context);
}

Result<UcxWorker> open_worker(ucp_context* context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // Made on one thread, used on another.
  ucp_worker_h worker = nullptr;
  if (ucs_status_t status = ucp_worker_create(context, &params, &worker); status != UCS_OK) {
    return ucx_error(Code::kUnavailable, "UCX cannot open a worker", status);
  }
  return UcxWorker(worker);
}

Result<std::string> worker_address(ucp_worker* worker) {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (ucs_status_t status = ucp_worker_get_address(worker, &address, &length); status != UCS_OK) {
    return ucx_error(Code::kUnavailable, "UCX gives no worker address", status);
  }
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker, address);
  if (length > kUcxAddressBytesMax) return internal_error(fmt::format("a worker address of {} bytes", length));
  return bytes;
}

}  // namespace lynx::transport
