#pragma once

// The daemons' settings: one typed struct, one table of options. Precedence: flags, then LYNX_* environment, then the file of
// --config.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/status.h"

namespace lynx::server {

enum class DeviceKind { kCpu, kCuda };
enum class Program { kDecodeNode, kPrefillNode };

/// Exit codes of every program.
enum ExitCode : int { kExitClean = 0, kExitRuntime = 1, kExitUsage = 2, kExitModel = 3 };

struct Config {
  std::string model;                            ///< A .gguf file or a Hugging Face directory.
  std::vector<std::string> served_model_names;  ///< Empty: the name of its file.
  std::string host = "127.0.0.1";
  int http_port = 8000;  ///< 0: any free one.
  int grpc_port = 8001;
  int control_port = 7000;           ///< Prefill node: for decode nodes.
  std::string advertise;             ///< Prefill node: HOST:PORT by which decode nodes reach it; empty: host and control port.
  std::vector<std::string> prefill;  ///< Decode node: HOST:PORT of each prefill node.
  std::string net_devices;           ///< Interfaces that the data plane uses; empty: UCX's choice.
  std::string transfer = "progressive-exact";
  std::string gap = "draft";      ///< Decode node: what it does between Anchors and Residuals.
  std::string require_transport;  ///< Empty: whatever connects.
  std::string pair_secret_file;   ///< Empty: no secret.
  std::string plane_profile;      ///< Empty: the one beside the model, or the one shipped for it.
  std::string port_file;
  bool aggregated = false;
  DeviceKind device = DeviceKind::kCpu;
  std::string isa = "auto";
  int threads = 0;  ///< 0: one a core.
  std::int64_t kv_memory_bytes = std::int64_t{1} << 30;
  int max_model_len = 0;  ///< 0: the model's context.
  int max_running = 64;
  std::string api_key_file;
  double shutdown_timeout_s = 30;
  double test_draft_noise = 0;     ///< Decode node: make_cache_sink().
  int test_residual_delay_ms = 0;  ///< Prefill node: KvSenderOptions.
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

/// A program that takes these settings.
struct ProgramInfo {
  std::string name;     ///< "lynx-decode-node"
  std::string summary;  ///< First line of --help.
  Program program = Program::kDecodeNode;
};

/// What the command line asks for: to run with `config`, or (when that is empty) to print and exit.
struct CommandLine {
  std::optional<Config> config;
  int exit_code = kExitClean;
  std::string out;                    ///< For stdout: --help, --version, --print-config.
  std::string err;                    ///< For stderr: what is wrong, naming the setting and where it came from.
  std::vector<std::string> warnings;  ///< To be logged: unknown LYNX_* variables.
};

using Environment = std::map<std::string, std::string>;

/// Pure but for reading the file of --config. `arguments` without the program's name.
CommandLine parse_command_line(const ProgramInfo& program, const std::vector<std::string>& arguments,
                               const Environment& environment);

/// The LYNX_* variables of this process.
Environment lynx_environment();

/// JSON that --config reads back to the same settings. INVALID_ARGUMENT naming a setting that is not UTF-8.
Result<std::string> config_to_json(const Config& config, Program program = Program::kDecodeNode);

/// What holds where nothing is set.
Config default_config(Program program);

/// Prints `out` and `err` of a command line that does not run; the exit code.
int report_and_exit_code(const CommandLine& line);

/// The keys of --api-key-file: one a line, blanks around them and empty lines ignored. Errors name the file; no key is one.
Result<std::vector<std::string>> read_api_keys(const std::string& path);

}  // namespace lynx::server
