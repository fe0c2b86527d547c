#include <ucs/debug/log_def.h>

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "common/log.h"
#include "transport/ucx_handles.h"

namespace lynx::transport {
namespace {

constexpr int kLinesPerSecond = 10;  // Strangers at the data port must not fill the log.

class LineBudget {
 public:
  /// Whether a line may be written now; `suppressed` gets how many were not since the last one that was.
  bool take(int* suppressed) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - window_start_ >= std::chrono::seconds(1)) {
      window_start_ = now;
      lines_ = 0;
    }
    if (lines_ >= kLinesPerSecond) {
      ++suppressed_;
      return false;
    }
    ++lines_;
    *suppressed = suppressed_;
    suppressed_ = 0;
    return true;
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point window_start_;
  int lines_ = 0;
  int suppressed_ = 0;
};

LogLevel level_of(ucs_log_level_t level) {
  if (level <= UCS_LOG_LEVEL_ERROR) return LogLevel::kError;
  if (level == UCS_LOG_LEVEL_WARN) return LogLevel::kWarning;
  return level <= UCS_LOG_LEVEL_INFO ? LogLevel::kInfo : LogLevel::kDebug;
}

ucs_log_func_rc_t write_line(const char* file, unsigned line, const char* /*function*/, ucs_log_level_t level,
                             const ucs_log_component_config_t* /*component*/, const char* message, va_list arguments) {
  static LineBudget budget;
  int suppressed = 0;
  if (level > UCS_LOG_LEVEL_FATAL && !budget.take(&suppressed)) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 1024> text{};
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text.data(), text.size(), message, copy);
  va_end(copy);
  log(level_of(level), text.data(), {{"from", "UCX"}, {"file", file}, {"line", std::int64_t{line}}, {"suppressed", suppressed}});
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void redirect_ucx_log() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(write_line); });
}

}  // namespace lynx::transport
