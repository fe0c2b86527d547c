#pragma once

// What both ends of a pair are made from.

#include <memory>
#include <string>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"
#include "server/config.h"
#include "server/node_model.h"
#include "transport/link.h"

namespace lynx::server {

/// What this node says about itself, but for what its data plane adds.
v1::NodeHello node_hello(const NodeModel& model, int max_model_len);

/// The UCX link of --net-devices. INVALID_ARGUMENT naming the flag.
Result<std::unique_ptr<transport::Link>> open_link(const Config& config);

/// The secret of --pair-secret-file; empty without one, with a warning if strangers could reach the port.
Result<std::string> pair_secret(const Config& config);

}  // namespace lynx::server
