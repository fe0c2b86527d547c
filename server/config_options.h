#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "server/config.h"

namespace lynx::server {

/// One setting: the flag "--name", the key "name" of the file, LYNX_NAME in the environment.
struct ConfigOption {
  enum class Kind { kText, kNumber, kSwitch };
  std::string_view name;
  std::string_view value_name;  ///< For --help; empty for switches.
  std::string_view help;
  Kind kind;
  Status (*set)(Config& config, std::string_view text);  ///< INVALID_ARGUMENT saying what is allowed.
  std::string (*get)(const Config& config);              ///< The text that set() takes back.
  std::optional<Program> only = std::nullopt;            ///< nullopt: both programs have it.
  bool alias = false;  ///< Another name of a setting: not printed, for whoever edits what is printed would have to edit both.

  bool belongs_to(Program program) const { return !only || *only == program; }
};

std::span<const ConfigOption> config_options();
const ConfigOption* find_config_option(std::string_view name);

/// "http-port" → "LYNX_HTTP_PORT".
std::string environment_name(std::string_view option);

}  // namespace lynx::server
