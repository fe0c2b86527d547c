#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace lynx::transport {

/// Ends the sleep of a thread that waits for file descriptors.
class WakeEvent {
 public:
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  bool ok() const { return fd_ >= 0; }
  /// Any thread.
  void ring();
  /// Returns when a descriptor is readable, after ring(), or after `wait_us`. At most seven descriptors.
  void wait(std::span<const int> fds, std::int64_t wait_us);

 private:
  int fd_;
};

}  // namespace lynx::transport
