#pragma once

// Structured logs on stderr: text for people, one JSON object a line for machines. Thread-safe. Prompts are never logged.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "common/status.h"

namespace lynx {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

/// One key of a log line; the value keeps its type in JSON.
struct LogField {
  std::string_view key;
  std::variant<std::int64_t, double, bool, std::string> value;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  LogField(std::string_view k, int v) : key(k), value(std::int64_t{v}) {}
  LogField(std::string_view k, std::int64_t v) : key(k), value(v) {}
  LogField(std::string_view k, std::size_t v) : key(k), value(static_cast<std::int64_t>(v)) {}
};

/// Parse "debug", "info", "warning", "error" / "text", "json"; INVALID_ARGUMENT names the text.
Result<LogLevel> parse_log_level(std::string_view text);
Result<LogFormat> parse_log_format(std::string_view text);

/// Once, at start, before other threads log. Without it: text, info.
void init_logging(LogLevel level, LogFormat format);

/// Writes one line: message, then the fields. A line about a request carries {"request_id", id}.
void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kDebug, message, fields);
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kInfo, message, fields);
}
inline void log_warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kWarning, message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kError, message, fields);
}

}  // namespace lynx
