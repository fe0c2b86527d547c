#include "common/log.h"

#include <array>
#include <memory>

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace lynx {
namespace {

LogFormat g_format = LogFormat::kText;  // Written once by init_logging, before threads start.

std::shared_ptr<spdlog::logger> make_logger(LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("lynx", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == LogFormat::kJson) {
    logger->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})", spdlog::pattern_time_type::utc);
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc);
  }
  logger->flush_on(spdlog::level::debug);
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make_logger(LogFormat::kText);
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  constexpr std::array<spdlog::level::level_enum, 4> kLevels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                             spdlog::level::err};
  return kLevels[static_cast<std::size_t>(level)];
}

void append_json_string(fmt::memory_buffer& out, std::string_view text) {
  out.push_back('"');
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// A text value with control characters or spaces is quoted, so that untrusted text cannot forge a line.
void append_text_value(fmt::memory_buffer& out, const std::string& text) {
  bool plain = !text.empty();
  for (char c : text) plain = plain && c > ' ' && c < 0x7f && c != '"';
  if (plain) {
    out.append(text.data(), text.data() + text.size());
  } else {
    append_json_string(out, text);
  }
}

void append_value(fmt::memory_buffer& out, const LogField& field, bool json) {
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    json ? append_json_string(out, *text) : append_text_value(out, *text);
  } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{}", *integer);
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    fmt::format_to(std::back_inserter(out), "{:.6g}", *real);
  } else {
    fmt::format_to(std::back_inserter(out), "{}", std::get<bool>(field.value));
  }
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  return invalid_argument(fmt::format("'{}' is not a log level (debug, info, warning, error)", text));
}

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return invalid_argument(fmt::format("'{}' is not a log format (text, json)", text));
}

void init_logging(LogLevel level, LogFormat format) {
  g_format = format;
  logger() = make_logger(format);
  logger()->set_level(to_spdlog(level));
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!logger()->should_log(to_spdlog(level))) return;
  bool json = g_format == LogFormat::kJson;
  fmt::memory_buffer line;
  if (json) {
    fmt::format_to(std::back_inserter(line), "\"message\":");
    append_json_string(line, message);
  } else {
    line.append(message.data(), message.data() + message.size());
  }
  for (const LogField& field : fields) {
    if (json) {
      fmt::format_to(std::back_inserter(line), ",\"{}\":", field.key);
    } else {
      fmt::format_to(std::back_inserter(line), " {}=", field.key);
    }
    append_value(line, field, json);
  }
  logger()->log(to_spdlog(level), std::string_view(line.data(), line.size()));
}

}  // namespace lynx
