#pragma once

#include "server/config.h"

namespace lynx::server {

/// lynx-decode-node: loads the model, serves until SIGTERM or SIGINT, drains. Returns the exit code; what went wrong is logged.
/// Call it before other threads exist: it blocks the two signals for the whole process.
int run_decode_node(const Config& config);

}  // namespace lynx::server
