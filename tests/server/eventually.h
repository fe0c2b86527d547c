#pragma once

#include <chrono>
#include <thread>

namespace lynx::server::testing {

/// Waits until `condition` holds; false after a generous deadline.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace lynx::server::testing
