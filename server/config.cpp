#include "server/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <variant>

#include "server/config_options.h"
#include "text/utf8.h"

namespace lynx::server {
namespace {

using Json = nlohmann::ordered_json;

/// What is no setting of ours is the test suite's.
constexpr std::string_view kTestPrefix = "LYNX_TEST_";
constexpr std::string_view kConfigVariable = "LYNX_CONFIG";
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

struct Flags {
  std::map<std::string, std::string> values;  ///< Of the options that were given.
  std::string config_file;
  bool print_config = false;
};

CommandLine usage_error(const ProgramInfo& program, std::string_view message) {
  return {.config = std::nullopt,
          .exit_code = kExitUsage,
          .out = {},
          .err = fmt::format("{}: {}\nTry {} --help.\n", program.name, message, program.name),
          .warnings = {}};
}

std::string option_help(const ConfigOption& option, const Config& defaults) {
  const std::string value = option.get(defaults);
  return fmt::format("{} [{}{}]", option.help, value.empty() ? "" : fmt::format("default {}, ", value),
                     environment_name(option.name));
}

/// "--name=" with nothing behind it becomes "--name" and an empty argument, in CLI11's order (from the back): it would take the
/// next argument for the value.
std::vector<std::string> for_cli11(const std::vector<std::string>& arguments) {
  std::vector<std::string> turned;
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) {
    const bool empty_value = it->starts_with("--") && it->find('=') == it->size() - 1;
    if (empty_value) turned.emplace_back();
    turned.push_back(empty_value ? it->substr(0, it->size() - 1) : *it);
  }
  return turned;
}

/// The flags, or what to print instead of running.
std::variant<Flags, CommandLine> parse_flags(const ProgramInfo& program, const std::vector<std::string>& arguments) {
  Flags flags;
  const Config defaults = default_config(program.program);
  CLI::App app(program.summary, program.name);
  app.set_version_flag("--version", fmt::format("{} {}", program.name, LYNX_VERSION));
  app.get_formatter()->column_width(36);
  std::map<std::string, std::pair<std::string, CLI::Option*>> given;
  for (const ConfigOption& option : config_options()) {
    if (!option.belongs_to(program.program)) continue;
    auto& [text, added] = given[std::string(option.name)];
    const std::string flag = fmt::format("--{}", option.name);
    if (option.kind == ConfigOption::Kind::kSwitch) {
      added = app.add_flag(flag, text, option_help(option, defaults));
    } else {
      added = app.add_option(flag, text, option_help(option, defaults))->type_name(std::string(option.value_name));
    }
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  app.add_option("--config", flags.config_file, "JSON file of settings, its keys named like these flags [LYNX_CONFIG]")
      ->type_name("PATH");
  app.add_flag("--print-config", flags.print_config, "print the settings as JSON, in the form of --config, and exit");
  try {
    app.parse(for_cli11(arguments));
  } catch (const CLI::CallForHelp&) {
    return CommandLine{.config = std::nullopt, .exit_code = kExitClean, .out = app.help(), .err = {}, .warnings = {}};
  } catch (const CLI::CallForVersion&) {
    return CommandLine{.config = std::nullopt, .exit_code = kExitClean, .out = app.version() + "\n", .err = {}, .warnings = {}};
  } catch (const CLI::ParseError& error) {
    return usage_error(program, error.what());
  }
  for (const auto& [name, entry] : given) {
    if (entry.second->count() > 0) flags.values[name] = entry.first;
  }
  return flags;
}

Status apply(const ConfigOption& option, std::string_view text, std::string_view source, Config* config) {
  return option.set(*config, text).with_context(source);
}

/// Opening a directory succeeds, only reading it fails; and a path such as /dev/zero never ends.
Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) return invalid_argument(fmt::format("{}: cannot be read", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) return invalid_argument(fmt::format("{}: longer than {} bytes", path, kMaxFileBytes));
  return text;
}

Status apply_file(const std::string& path, Program program, Config* config) {
  LYNX_TRY(const std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return invalid_argument(fmt::format("{}: not valid JSON", path));
  if (!json.is_object()) return invalid_argument(fmt::format("{}: must be a JSON object", path));
  for (const auto& [key, value] : json.items()) {
    const ConfigOption* option = find_config_option(key);
    const std::string source = fmt::format("{}: \"{}\"", path, key);
    if (option == nullptr) return invalid_argument(fmt::format("{}: unknown setting", source));
    if (!option->belongs_to(program)) return invalid_argument(fmt::format("{}: a setting of the other node's", source));
    if (value.is_null()) continue;
    if (!value.is_string() && !value.is_number() && !value.is_boolean()) {
      return invalid_argument(fmt::format("{}: must be a string, a number or true or false", source));
    }
    LYNX_RETURN_IF_ERROR(apply(*option, value.is_string() ? value.get<std::string>() : value.dump(), source, config));
  }
  return {};
}

Status apply_environment(const Environment& environment, Program program, Config* config, std::vector<std::string>* warnings) {
  for (const auto& [name, value] : environment) {
    if (name == kConfigVariable) continue;
    const ConfigOption* found = nullptr;
    for (const ConfigOption& option : config_options()) {
      if (environment_name(option.name) == name) found = &option;
    }
    if (found == nullptr) {
      if (name.starts_with(kTestPrefix)) continue;
      // Not fatal: Kubernetes sets LYNX_…_SERVICE_HOST and the like for every service whose name begins with "lynx-".
      warnings->push_back(fmt::format("{} is set, but is no setting", name));
      continue;
    }
    // Both nodes may be given one environment.
    if (found->belongs_to(program)) LYNX_RETURN_IF_ERROR(apply(*found, value, name, config));
  }
  return {};
}

/// File, then environment, then flags: what comes later wins.
Status apply_all(const Flags& flags, const Environment& environment, Program program, Config* config,
                 std::vector<std::string>* warnings) {
  std::string file = flags.config_file;
  if (const auto it = environment.find(std::string(kConfigVariable)); file.empty() && it != environment.end()) file = it->second;
  if (!file.empty()) LYNX_RETURN_IF_ERROR(apply_file(file, program, config));
  LYNX_RETURN_IF_ERROR(apply_environment(environment, program, config, warnings));
  for (const auto& [name, text] : flags.values) {
    LYNX_RETURN_IF_ERROR(apply(*find_config_option(name), text, "--" + name, config));
  }
  // Of two names of one setting the later flag has won: the other one must have said the same.
  for (const auto& [name, text] : flags.values) {
    if (name != "gap" && name != "speculation") continue;
    if (find_config_option(name)->get(*config) != text) return invalid_argument("--gap and --speculation contradict each other");
  }
  return {};
}

}  // namespace

Config default_config(Program program) {
  Config config;
  if (program == Program::kPrefillNode) config.http_port = 7001;
  return config;
}

Result<std::string> config_to_json(const Config& config, Program program) {
  Json json = Json::object();
  for (const ConfigOption& option : config_options()) {
    if (!option.belongs_to(program) || option.alias) continue;
    const std::string text = option.get(config);
    if (text::find_invalid_utf8(text)) {
      return invalid_argument(fmt::format("--print-config: {} is not valid UTF-8, which JSON cannot hold", option.name));
    }
    json[std::string(option.name)] = option.kind == ConfigOption::Kind::kText ? Json(text) : Json::parse(text);
  }
  return json.dump(2) + "\n";
}

CommandLine parse_command_line(const ProgramInfo& program, const std::vector<std::string>& arguments,
                               const Environment& environment) {
  auto parsed = parse_flags(program, arguments);
  if (auto* line = std::get_if<CommandLine>(&parsed)) return std::move(*line);
  const Flags& flags = std::get<Flags>(parsed);
  CommandLine line;
  Config config = default_config(program.program);
  const Status status = apply_all(flags, environment, program.program, &config, &line.warnings);
  if (!status.ok()) return usage_error(program, status.message());
  if (flags.print_config) {
    auto json = config_to_json(config, program.program);
    if (!json.ok()) return usage_error(program, json.status().message());
    line.out = std::move(json).value();
    return line;
  }
  line.config = std::move(config);
  return line;
}

Environment lynx_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("LYNX_") && equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

int report_and_exit_code(const CommandLine& line) {
  std::fputs(line.out.c_str(), stdout);
  std::fputs(line.err.c_str(), stderr);
  return line.exit_code;
}

Result<std::vector<std::string>> read_api_keys(const std::string& path) {
  auto content = read_file(path);
  if (!content.ok()) return content.status().with_context("api-key-file");
  std::istringstream lines(std::move(content).value());
  std::vector<std::string> keys;
  int line = 0;
  for (std::string text; std::getline(lines, text);) {
    ++line;
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string::npos || text[first] == '#') continue;
    keys.push_back(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
    if (keys.back().find_first_of(" \t") != std::string::npos) {
      return invalid_argument(fmt::format("api-key-file: {}: line {} holds a blank within the key", path, line));
    }
  }
  if (keys.empty()) return invalid_argument(fmt::format("api-key-file: {} holds no key", path));
  return keys;
}

}  // namespace lynx::server
