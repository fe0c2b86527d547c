#pragma once

// UCX's handles as owners, and its errors as Status. Private: only ucx_*.cpp include this, so that no UCX type leaves them.

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"
#include "transport/ucx_address.h"
#include "transport/ucx_link.h"

namespace lynx::transport {

/// Lynx's messages among UCX's active messages.
inline constexpr unsigned kUcxMessageId = 1;

struct UcxContextDeleter {
  void operator()(ucp_context* context) const { ucp_cleanup(context); }
};
struct UcxWorkerDeleter {
  void operator()(ucp_worker* worker) const { ucp_worker_destroy(worker); }
};
using UcxContext = std::unique_ptr<ucp_context, UcxContextDeleter>;
using UcxWorker = std::unique_ptr<ucp_worker, UcxWorkerDeleter>;

/// "what: UCX's own words".
Status ucx_error(Code code, std::string_view what, ucs_status_t status);

/// Of the library that is loaded, not of the headers.
UcxVersion ucx_version();

/// A context with Lynx's settings (active messages, wakeup). UNAVAILABLE with UCX's reason.
Result<UcxContext> open_context(const UcxLinkOptions& options);

/// A worker, to be used by one thread at a time.
Result<UcxWorker> open_worker(ucp_context* context);

/// A worker's address, as UCX gives it.
Result<std::string> worker_address(ucp_worker* worker);

/// The transport and device that an endpoint's active messages take; empty while it is not known.
LinkInfo endpoint_info(ucp_ep* endpoint);

/// UCX logs on stdout by itself: from the first call on its lines go to Lynx's log, a bounded number a second.
void redirect_ucx_log();

}  // namespace lynx::transport
