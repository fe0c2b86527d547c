#include "server/config_options.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "common/units.h"
#include "device/isa.h"
#include "server/transfer_mode.h"

namespace lynx::server {
namespace {

using Kind = ConfigOption::Kind;

template <class T>
Status set_number(std::string_view text, T min, T max, T* out) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The comparison is false for NaN.
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= min && value <= max)) {
    return invalid_argument(fmt::format("must be a number from {} to {}, not \"{}\"", min, max, text));
  }
  *out = value;
  return {};
}

Status set_text(std::string_view text, std::string* out) {
  *out = std::string(text);
  return {};
}

Status set_switch(std::string_view text, bool* out) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return invalid_argument(fmt::format("must be true or false, not \"{}\"", text));
  }
  *out = text == "true" || text == "1";
  return {};
}

Status set_names(std::string_view text, std::vector<std::string>* out) {
  out->clear();
  if (text.empty()) return {};
  for (;;) {
    const auto comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    if (name.empty()) return invalid_argument("must be names separated by commas");
    out->emplace_back(name);
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
  }
}

Status set_device(Config& config, std::string_view text) {
  if (text == "cpu") {
    config.device = DeviceKind::kCpu;
  } else if (text == "cuda") {
    config.device = DeviceKind::kCuda;
  } else {
    return invalid_argument(fmt::format("must be cpu or cuda, not \"{}\"", text));
  }
  return {};
}

Status set_isa(Config& config, std::string_view text) {
  std::string known = "auto";
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
    if (text == isa_name(isa)) return set_text(text, &config.isa);
    known += fmt::format(", {}", isa_name(isa));
  }
  if (text == "auto") return set_text(text, &config.isa);
  return invalid_argument(fmt::format("must be one of {}; not \"{}\"", known, text));
}

Status set_log_level(Config& config, std::string_view text) {
  LYNX_TRY(config.log_level, parse_log_level(text));
  return {};
}

Status set_log_format(Config& config, std::string_view text) {
  LYNX_TRY(config.log_format, parse_log_format(text));
  return {};
}

Status set_kv_memory(Config& config, std::string_view text) {
  LYNX_TRY(config.kv_memory_bytes, parse_bytes(text));
  return {};
}

/// "HOST:PORT", "[IPv6]:PORT".
Status check_address(std::string_view text) {
  const auto colon = text.rfind(':');
  int port = 0;
  const bool has_scheme = text.find('/') != std::string_view::npos || text.starts_with("unix:");
  if (!has_scheme && colon != std::string_view::npos && colon > 0 && set_number(text.substr(colon + 1), 1, 65535, &port).ok())
    return {};
  return invalid_argument(fmt::format("must be HOST:PORT, not \"{}\"", text));
}

Status set_addresses(std::string_view text, std::vector<std::string>* out) {
  LYNX_RETURN_IF_ERROR(set_names(text, out));
  for (const std::string& address : *out) LYNX_RETURN_IF_ERROR(check_address(address));
  return {};
}

Status set_advertise(Config& config, std::string_view text) {
  if (!text.empty()) LYNX_RETURN_IF_ERROR(check_address(text));
  return set_text(text, &config.advertise);
}

Status set_transfer(Config& config, std::string_view text) {
  if (!parse_transfer_mode(text)) {
    std::string known;
    for (const TransferMode mode : kTransferModes)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", transfer_mode_name(mode));
    return invalid_argument(fmt::format("must be one of {}, not \"{}\"", known, text));
  }
  return set_text(text, &config.transfer);
}

Status set_gap(Config& config, std::string_view text) {
  if (!parse_gap_mode(text)) return invalid_argument(fmt::format("must be draft or wait, not \"{}\"", text));
  return set_text(text, &config.gap);
}

Status set_speculation(Config& config, std::string_view text) {
  if (text != "on" && text != "off") return invalid_argument(fmt::format("must be on or off, not \"{}\"", text));
  return set_text(text == "on" ? "draft" : "wait", &config.gap);
}

std::string get_bytes(std::int64_t bytes) {
  for (const auto& [shift, unit] : {std::pair{30, "GiB"}, std::pair{20, "MiB"}, std::pair{10, "KiB"}}) {
    if (bytes % (std::int64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  }
  return std::to_string(bytes);
}

std::string get_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "info";
}

constexpr int kMaxPort = 65535;
constexpr int kMaxInt = std::numeric_limits<int>::max();

constexpr std::array kOptions = {
    ConfigOption{"model", "PATH", "the model: a .gguf file or a Hugging Face directory", Kind::kText,
                 [](Config& c, std::string_view t) { return set_text(t, &c.model); }, [](const Config& c) { return c.model; }},
    ConfigOption{"served-model-name", "NAMES", "names that requests may ask for, separated by commas (default: the file's name)",
                 Kind::kText, [](Config& c, std::string_view t) { return set_names(t, &c.served_model_names); },
                 [](const Config& c) { return fmt::format("{}", fmt::join(c.served_model_names, ",")); }, Program::kDecodeNode},
    ConfigOption{"host", "ADDRESS", "address to listen on", Kind::kText,
                 [](Config& c, std::string_view t) { return set_text(t, &c.host); }, [](const Config& c) { return c.host; }},
    ConfigOption{"http-port", "PORT", "port of HTTP (at a prefill node: probes and metrics alone); 0 takes a free one",
                 Kind::kNumber, [](Config& c, std::string_view t) { return set_number(t, 0, kMaxPort, &c.http_port); },
                 [](const Config& c) { return std::to_string(c.http_port); }},
    ConfigOption{"grpc-port", "PORT", "port of the gRPC front; 0 takes a free one", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0, kMaxPort, &c.grpc_port); },
                 [](const Config& c) { return std::to_string(c.grpc_port); }, Program::kDecodeNode},
    ConfigOption{"control-port", "PORT", "port that decode nodes connect to; 0 takes a free one", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0, kMaxPort, &c.control_port); },
                 [](const Config& c) { return std::to_string(c.control_port); }, Program::kPrefillNode},
    ConfigOption{"advertise", "HOST:PORT",
                 "the control address that logs and /health show, if not --host and --control-port; decode nodes go where their "
                 "--prefill says",
                 Kind::kText, set_advertise, [](const Config& c) { return c.advertise; }, Program::kPrefillNode},
    ConfigOption{"prefill", "HOST:PORT,…", "the prefill nodes that compute prompts for this node", Kind::kText,
                 [](Config& c, std::string_view t) { return set_addresses(t, &c.prefill); },
                 [](const Config& c) { return fmt::format("{}", fmt::join(c.prefill, ",")); }, Program::kDecodeNode},
    ConfigOption{"net-devices", "NAMES", "network interfaces of the data plane, such as eth0 or mlx5_0:1 (default: UCX's choice)",
                 Kind::kText, [](Config& c, std::string_view t) { return set_text(t, &c.net_devices); },
                 [](const Config& c) { return c.net_devices; }},
    ConfigOption{"transfer", "MODE",
                 "how KV caches travel when a request does not say (the decode node's setting counts): bf16, lossless, int8, "
                 "int4, progressive-int8 or progressive-exact (4 bits first, the rest behind: the same text as bf16); with "
                 "--aggregated: the view that prompts are decoded on",
                 Kind::kText, set_transfer, [](const Config& c) { return c.transfer; }},
    ConfigOption{"gap", "MODE", "what to do between the 4 bits and the rest: draft or wait", Kind::kText, set_gap,
                 [](const Config& c) { return c.gap; }, Program::kDecodeNode},
    ConfigOption{"speculation", "ON|OFF", "the same: off is --gap wait", Kind::kText, set_speculation,
                 [](const Config& c) { return std::string(c.gap == "draft" ? "on" : "off"); }, Program::kDecodeNode, true},
    ConfigOption{"require-transport", "NAME", "refuse a data plane that does not use this transport, such as rc or tcp",
                 Kind::kText, [](Config& c, std::string_view t) { return set_text(t, &c.require_transport); },
                 [](const Config& c) { return c.require_transport; }},
    ConfigOption{"pair-secret-file", "PATH", "file with the secret that the two nodes of a pair share", Kind::kText,
                 [](Config& c, std::string_view t) { return set_text(t, &c.pair_secret_file); },
                 [](const Config& c) { return c.pair_secret_file; }},
    ConfigOption{
        "plane-profile", "PATH",
        "the model's plane profile, made by lynx calibrate (default: MODEL.profile.json, or the one shipped for the model); of a "
        "pair the prefill node's counts",
        Kind::kText, [](Config& c, std::string_view t) { return set_text(t, &c.plane_profile); },
        [](const Config& c) { return c.plane_profile; }},
    ConfigOption{"port-file", "PATH", "file to write the node's two ports to, one a line, HTTP first, once both are open",
                 Kind::kText, [](Config& c, std::string_view t) { return set_text(t, &c.port_file); },
                 [](const Config& c) { return c.port_file; }},
    ConfigOption{"aggregated", "", "prefill and decode in this one process", Kind::kSwitch,
                 [](Config& c, std::string_view t) { return set_switch(t, &c.aggregated); },
                 [](const Config& c) { return std::string(c.aggregated ? "true" : "false"); }, Program::kDecodeNode},
    ConfigOption{"device", "DEVICE", "cpu; cuda is refused in this version", Kind::kText, set_device,
                 [](const Config& c) { return std::string(c.device == DeviceKind::kCpu ? "cpu" : "cuda"); }},
    ConfigOption{"isa", "PATH", "instruction set: auto, portable, avx2, avx512bf16 or amxbf16", Kind::kText, set_isa,
                 [](const Config& c) { return c.isa; }},
    ConfigOption{"threads", "N", "threads that compute; 0 means one a core", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0, 1024, &c.threads); },
                 [](const Config& c) { return std::to_string(c.threads); }},
    ConfigOption{"kv-memory", "SIZE",
                 "memory for the KV cache, such as 2GiB; a decode node of a pair puts about a third of it into Anchor planes",
                 Kind::kText, set_kv_memory, [](const Config& c) { return get_bytes(c.kv_memory_bytes); }},
    ConfigOption{"max-model-len", "TOKENS", "longest prompt and answer together; 0 means the model's context", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0, kMaxInt, &c.max_model_len); },
                 [](const Config& c) { return std::to_string(c.max_model_len); }},
    ConfigOption{"max-running", "N", "sequences that are generated at once", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 1, 4096, &c.max_running); },
                 [](const Config& c) { return std::to_string(c.max_running); }},
    ConfigOption{"api-key-file", "PATH", "file of API keys, one a line; requests then need one of them", Kind::kText,
                 [](Config& c, std::string_view t) { return set_text(t, &c.api_key_file); },
                 [](const Config& c) { return c.api_key_file; }, Program::kDecodeNode},
    ConfigOption{"shutdown-timeout", "SECONDS", "how long running requests may go on after SIGTERM", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0.0, 86400.0, &c.shutdown_timeout_s); },
                 [](const Config& c) { return fmt::format("{}", c.shutdown_timeout_s); }},
    ConfigOption{"test-draft-noise", "SHARE", "for tests: this share of what drafting reads is wrong", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0.0, 1.0, &c.test_draft_noise); },
                 [](const Config& c) { return fmt::format("{}", c.test_draft_noise); }, Program::kDecodeNode},
    ConfigOption{"test-residual-delay", "MS", "for tests: what follows the 4 bits sets out so much later", Kind::kNumber,
                 [](Config& c, std::string_view t) { return set_number(t, 0, 600'000, &c.test_residual_delay_ms); },
                 [](const Config& c) { return std::to_string(c.test_residual_delay_ms); }, Program::kPrefillNode},
    ConfigOption{"log-level", "LEVEL", "debug, info, warning or error", Kind::kText, set_log_level,
                 [](const Config& c) { return get_log_level(c.log_level); }},
    ConfigOption{"log-format", "FORMAT", "text or json", Kind::kText, set_log_format,
                 [](const Config& c) { return std::string(c.log_format == LogFormat::kText ? "text" : "json"); }},
};

}  // namespace

std::span<const ConfigOption> config_options() {
  return kOptions;
}

const ConfigOption* find_config_option(std::string_view name) {
  for (const ConfigOption& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string environment_name(std::string_view option) {
  std::string name = "LYNX_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace lynx::server
