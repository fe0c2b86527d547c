#pragma once

#include <chrono>

namespace lynx::server {

/// SIGTERM and SIGINT as something to wait for. Made before other threads, which inherit that both are blocked.
class ShutdownSignal {
 public:
  ShutdownSignal();

  void wait();
  /// True when a signal came in time.
  bool wait_for(std::chrono::milliseconds timeout);
};

}  // namespace lynx::server
