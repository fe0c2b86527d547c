#pragma once

#include "server/config.h"

namespace lynx::server {

/// lynx-prefill-node: loads the model, computes prompts for decode nodes until SIGTERM or SIGINT, drains. Returns the exit code;
/// what went wrong is logged. Call it before other threads exist: it blocks the two signals for the whole process.
int run_prefill_node(const Config& config);

}  // namespace lynx::server
