#include "server/config.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/config_options.h"
#include "server/transfer_mode.h"
#include "tests/catch.h"

namespace lynx::server {
namespace {

const ProgramInfo kDecode{"lynx-decode-node", "Serves.", Program::kDecodeNode};
const ProgramInfo kPrefill{"lynx-prefill-node", "Prefills.", Program::kPrefillNode};

/// A file that goes away with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    static int counter = 0;
    path_ =
        (std::filesystem::temp_directory_path() / ("lynx-config-" + std::to_string(::getpid()) + "-" + std::to_string(counter++)))
            .string();
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

CommandLine parse(const std::vector<std::string>& arguments, const Environment& environment = {},
                  const ProgramInfo& program = kDecode) {
  return parse_command_line(program, arguments, environment);
}

/// A valid text for each option that differs from its default.
std::string other_value(const ConfigOption& option) {
  if (option.kind == ConfigOption::Kind::kSwitch) return "true";
  if (option.name == "test-draft-noise") return "0.25";
  if (option.kind == ConfigOption::Kind::kNumber) return "17";
  if (option.name == "device") return "cuda";
  if (option.name == "isa") return "avx2";
  if (option.name == "kv-memory") return "3MiB";
  if (option.name == "log-level") return "error";
  if (option.name == "log-format") return "json";
  if (option.name == "transfer") return "bf16";
  if (option.name == "gap") return "wait";
  if (option.name == "speculation") return "off";
  if (option.name == "prefill") return "a:7000,[::1]:7000";
  if (option.name == "advertise") return "prefill-0.prefill:7000";
  return "some-text";
}

}  // namespace

TEST_CASE("without arguments the defaults hold") {
  const CommandLine line = parse({});
  REQUIRE(line.config);
  CHECK(line.config->host == "127.0.0.1");
  CHECK(line.config->http_port == 8000);
  CHECK(line.config->grpc_port == 8001);
  CHECK_FALSE(line.config->aggregated);
  CHECK(line.config->device == DeviceKind::kCpu);
  CHECK(line.config->isa == "auto");
}

// By flag, environment and file, in this precedence.
void check_sources(const ConfigOption& option, const ProgramInfo& program) {
  const std::string name(option.name);
  INFO(program.name << " --" << name);
  const std::string standard = option.get(default_config(program.program));
  const std::string other = other_value(option);
  REQUIRE(standard != other);
  const bool text = option.kind == ConfigOption::Kind::kText;
  const TemporaryFile file("{\"" + name + "\":" + (text ? "\"" + other + "\"" : other) + "}");
  const std::string variable = environment_name(name);
  const auto value = [&](const std::vector<std::string>& arguments, const Environment& environment) {
    const CommandLine line = parse(arguments, environment, program);
    INFO(line.err);
    REQUIRE(line.config);
    return option.get(*line.config);
  };
  CHECK(value({"--" + name + "=" + other}, {}) == other);
  CHECK(value({}, {{variable, other}}) == other);
  CHECK(value({"--config", file.path()}, {}) == other);
  CHECK(value({}, {{"LYNX_CONFIG", file.path()}}) == other);
  if (standard.empty()) return;
  CHECK(value({"--config", file.path()}, {{variable, standard}}) == standard);
  CHECK(value({"--config", file.path(), "--" + name + "=" + standard}, {{variable, other}}) == standard);
}

TEST_CASE("every option can be set by flag, environment and file, in this precedence") {
  for (const ConfigOption& option : config_options()) {
    for (const ProgramInfo& program : {kDecode, kPrefill}) {
      if (option.belongs_to(program.program)) check_sources(option, program);
    }
  }
}

TEST_CASE("an option of the other program is refused as flag and in a file; its variable is left to the other") {
  for (const ConfigOption& option : config_options()) {
    if (!option.only) continue;
    const ProgramInfo& other = *option.only == Program::kDecodeNode ? kPrefill : kDecode;
    const std::string name(option.name);
    INFO(other.name << " --" << name);
    CHECK(parse({"--" + name + "=" + other_value(option)}, {}, other).exit_code == kExitUsage);
    const TemporaryFile file("{\"" + name + "\": null}");
    const CommandLine from_file = parse({"--config", file.path()}, {}, other);
    CHECK(from_file.exit_code == kExitUsage);
    CHECK(from_file.err.find(name) != std::string::npos);
    const CommandLine from_environment = parse({}, {{environment_name(name), "nonsense"}}, other);
    REQUIRE(from_environment.config);
    CHECK(from_environment.warnings.empty());
  }
  CHECK(parse({}, {}, kPrefill).config->http_port == 7001);
}

TEST_CASE("addresses and modes of a pair are checked where they are set") {
  for (const char* bad : {",", "a:7000,", "a", "a:", ":7000", "a:0", "a:65536", "a:7000 ", "a:x", "http://a:7000", "unix:a:1"}) {
    INFO(bad);
    CHECK(parse({std::string("--prefill=") + bad}).exit_code == kExitUsage);
  }
  const CommandLine none = parse({"--prefill=", "--threads=3", "--api-key-file="});
  INFO(none.err);
  REQUIRE(none.config);
  CHECK(none.config->prefill.empty());
  CHECK(none.config->threads == 3);
  CHECK(parse({}).config->transfer == "progressive-exact");
  const std::string no_mode = parse({"--transfer=fp8"}).err;
  for (const TransferMode mode : kTransferModes) {
    const std::string name(transfer_mode_name(mode));
    CHECK(parse({"--transfer=" + name}).config->transfer == name);
    CHECK(parse({"--transfer", name}, {}, kPrefill).config->transfer == name);
    CHECK(no_mode.find(name) != std::string::npos);
  }
  CHECK(parse({"--advertise=somewhere"}, {}, kPrefill).err.find("--advertise") != std::string::npos);
}

TEST_CASE("speculation is another name of gap, and print-config gives the one") {
  CHECK(parse({}).config->gap == "draft");
  CHECK(parse({"--gap=wait"}).config->gap == "wait");
  CHECK(parse({"--speculation=off"}).config->gap == "wait");
  CHECK(parse({"--speculation=on"}, {{"LYNX_GAP", "wait"}}).config->gap == "draft");
  CHECK(parse({"--gap=draft"}, {{"LYNX_SPECULATION", "off"}}).config->gap == "draft");
  const TemporaryFile off(R"({"speculation": "off"})");
  CHECK(parse({"--config", off.path()}).config->gap == "wait");
  CHECK(parse({"--config", off.path(), "--gap=draft"}).config->gap == "draft");
  CHECK(parse({"--gap=speculate"}).err.find("draft or wait") != std::string::npos);
  CHECK(parse({"--speculation=off", "--gap=wait"}).config->gap == "wait");
  CHECK(parse({"--speculation=off", "--gap=draft"}).err.find("contradict") != std::string::npos);
  CHECK(parse({"--gap=wait", "--speculation=on"}).err.find("contradict") != std::string::npos);
  CHECK(parse({"--speculation=wait"}).err.find("on or off") != std::string::npos);
  const auto printed = nlohmann::json::parse(parse({"--speculation=off", "--print-config"}).out);
  CHECK(printed.at("gap") == "wait");
  CHECK_FALSE(printed.contains("speculation"));
}

TEST_CASE("what tests set is bounded") {
  CHECK(parse({}).config->test_draft_noise == 0);
  CHECK(parse({"--test-draft-noise=0.5"}).config->test_draft_noise == 0.5);
  for (const char* bad : {"-0.1", "1.1", "nan", "much"}) {
    CHECK(parse({std::string("--test-draft-noise=") + bad}).err.find("--test-draft-noise") != std::string::npos);
  }
  CHECK(parse({}, {}, kPrefill).config->test_residual_delay_ms == 0);
  CHECK(parse({"--test-residual-delay=500"}, {}, kPrefill).config->test_residual_delay_ms == 500);
  for (const char* bad : {"-1", "600001", "1s"}) {
    CHECK(parse({std::string("--test-residual-delay=") + bad}, {}, kPrefill).err.find("--test-residual-delay") !=
          std::string::npos);
  }
}

TEST_CASE("a flag given twice: the last one counts") {
  const CommandLine line = parse({"--threads", "3", "--aggregated", "--threads=4", "--aggregated=false"});
  REQUIRE(line.config);
  CHECK(line.config->threads == 4);
  CHECK_FALSE(line.config->aggregated);
}

TEST_CASE("print-config is read back to the same settings") {
  std::vector<std::string> arguments;
  for (const ConfigOption& option : config_options()) {
    if (option.belongs_to(Program::kDecodeNode)) arguments.push_back("--" + std::string(option.name) + "=" + other_value(option));
  }
  arguments.emplace_back("--print-config");
  const CommandLine printed = parse(arguments);
  REQUIRE_FALSE(printed.config);
  CHECK(printed.exit_code == kExitClean);
  const TemporaryFile file(printed.out);
  const CommandLine again = parse({"--config", file.path(), "--print-config"});
  CHECK(again.out == printed.out);
  const auto json = nlohmann::json::parse(printed.out);
  CHECK(json.at("http-port") == 17);
  CHECK(json.at("aggregated") == true);
  CHECK(json.at("kv-memory") == "3MiB");
}

TEST_CASE("help names every option, its default and its variable; version is a line") {
  const CommandLine help = parse({"--help"});
  REQUIRE_FALSE(help.config);
  CHECK(help.exit_code == kExitClean);
  for (const ConfigOption& option : config_options()) {
    if (!option.belongs_to(Program::kDecodeNode)) continue;
    CHECK(help.out.find("--" + std::string(option.name)) != std::string::npos);
    CHECK(help.out.find(environment_name(option.name)) != std::string::npos);
  }
  CHECK(help.out.find("default 8000") != std::string::npos);
  CHECK(parse({"--version"}).out.starts_with("lynx-decode-node "));
}

TEST_CASE("what is wrong is named, with where it came from, and exits 2") {
  struct Case {
    std::vector<std::string> arguments;
    Environment environment;
    std::string mention;
  };
  const TemporaryFile unknown_key(R"({"http_port": 1})");
  const TemporaryFile bad_value(R"({"http-port": "many"})");
  const TemporaryFile bad_type(R"({"model": ["a"]})");
  const TemporaryFile not_json("{");
  const TemporaryFile not_object("[]");
  const std::vector<Case> cases = {
      {{"--http-port", "70000"}, {}, "--http-port"},
      {{"--http-port", "80x"}, {}, "80x"},
      {{"--http-port", "-1"}, {}, "--http-port"},
      {{"--no-such-flag"}, {}, "--no-such-flag"},
      {{"stray"}, {}, "stray"},
      {{"--http-port"}, {}, "--http-port"},
      {{"--aggregated=perhaps"}, {}, "aggregated"},
      {{"--kv-memory", "2 lots"}, {}, "--kv-memory"},
      {{"--isa", "sse2"}, {}, "sse2"},
      {{"--device", "tpu"}, {}, "tpu"},
      {{"--shutdown-timeout", "nan"}, {}, "--shutdown-timeout"},
      {{"--log-level", "loud"}, {}, "loud"},
      {{"--served-model-name", "a,,b"}, {}, "--served-model-name"},
      {{}, {{"LYNX_THREADS", "several"}}, "LYNX_THREADS"},
      {{"--config", unknown_key.path()}, {}, "http_port"},
      {{"--config", bad_value.path()}, {}, "http-port"},
      {{"--config", bad_type.path()}, {}, "model"},
      {{"--config", not_json.path()}, {}, not_json.path()},
      {{"--config", not_object.path()}, {}, not_object.path()},
      {{"--config", "/no/such/file"}, {}, "/no/such/file"},
      {{"--config", "/"}, {}, "/: cannot be read"},
      {{"--config", "/dev/zero"}, {}, "/dev/zero: longer than"},
      {{"--print-config", "--port-file", "a\xff"}, {}, "port-file is not valid UTF-8"},
  };
  for (const Case& each : cases) {
    const CommandLine line = parse(each.arguments, each.environment);
    INFO(each.mention << " in " << line.err);
    CHECK_FALSE(line.config);
    CHECK(line.exit_code == kExitUsage);
    CHECK(line.err.find(each.mention) != std::string::npos);
  }
}

TEST_CASE("the committed configurations are valid") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.is_directory()) continue;
    const bool prefill = entry.path().filename().string().starts_with("prefill");
    const CommandLine line = parse({"--config", entry.path().string()}, {}, prefill ? kPrefill : kDecode);
    INFO(entry.path() << ": " << line.err);
    REQUIRE(line.config);
    CHECK((prefill || line.config->aggregated || !line.config->prefill.empty()));
    ++files;
  }
  CHECK(files > 0);
}

TEST_CASE("unknown LYNX_ variables are warned about, those of the tests are not") {
  const CommandLine line = parse({}, {{"LYNX_HTTP_PROT", "1"}, {"LYNX_TEST_MODEL", "x"}, {"LYNX_DECODE_SERVICE_HOST", "10.0.0.1"}});
  REQUIRE(line.config);
  REQUIRE(line.warnings.size() == 2);
  CHECK(line.warnings[0].find("LYNX_DECODE_SERVICE_HOST") != std::string::npos);
  CHECK(line.warnings[1].find("LYNX_HTTP_PROT") != std::string::npos);
}

TEST_CASE("API keys are lines; a file without one is an error that names it") {
  const TemporaryFile keys("  first \r\n\n\tsecond\n");
  const auto read = read_api_keys(keys.path());
  REQUIRE(read.ok());
  CHECK(*read == std::vector<std::string>{"first", "second"});
  const TemporaryFile empty("\n \n# none\n");
  CHECK(read_api_keys(empty.path()).status().message().find(empty.path()) != std::string::npos);
  const TemporaryFile withdrawn("# old\nnew\n  # older");
  CHECK(*read_api_keys(withdrawn.path()) == std::vector<std::string>{"new"});
  const TemporaryFile two("one\nkey two\n");
  CHECK(read_api_keys(two.path()).status().message().find("line 2") != std::string::npos);
  for (const std::string path : {"/no/such/file", "/"}) {
    const Status unread = read_api_keys(path).status();
    CHECK(unread.message().find("api-key-file: " + path + ": cannot be read") != std::string::npos);
  }
}

}  // namespace lynx::server
