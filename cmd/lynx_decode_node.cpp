// lynx-decode-node: settings in, exit code out.

#include <exception>

#include "common/log.h"
#include "server/config.h"
#include "server/decode_node.h"

int main(int argc, char** argv) {
  using namespace lynx::server;
  try {
    const CommandLine line = parse_command_line(
        {"lynx-decode-node",
         "Generates text from KV caches of prefill nodes (or, with --aggregated, of its own); serves HTTP and gRPC."},
        {argv + 1, argv + argc}, lynx_environment());
    if (!line.config) return report_and_exit_code(line);
    lynx::init_logging(line.config->log_level, line.config->log_format);
    for (const std::string& warning : line.warnings) lynx::log_warning(warning);
    return run_decode_node(*line.config);
  } catch (const std::exception& error) {
    lynx::log_error("unexpected failure", {{"reason", error.what()}});
    return kExitRuntime;
  }
}
