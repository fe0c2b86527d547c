// lynx-prefill-node: takes the settings of a node; KV transfer, its purpose, is not part of this version.

#include <exception>

#include "common/log.h"
#include "server/config.h"

int main(int argc, char** argv) {
  using namespace lynx::server;
  try {
    const CommandLine line = parse_command_line({"lynx-prefill-node", "Prefills for decode nodes (not in this version)."},
                                                {argv + 1, argv + argc}, lynx_environment());
    if (!line.config) return report_and_exit_code(line);
    lynx::init_logging(line.config->log_level, line.config->log_format);
    lynx::log_error("cannot serve",
                    {{"reason",
                      "transfer of KV caches is not part of this version, and a prefill node has no use without it; "
                      "run lynx-decode-node --aggregated"}});
    return kExitUsage;
  } catch (const std::exception& error) {
    lynx::log_error("unexpected failure", {{"reason", error.what()}});
    return kExitRuntime;
  }
}
