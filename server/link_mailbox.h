#pragma once

// Commands from any thread, carried out in order on a link's progress thread.

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/link.h"

namespace lynx::server {

class LinkMailbox {
 public:
  /// `link` is not owned.
  explicit LinkMailbox(transport::Link* link) : link_(link) {}

  /// Any thread.
  void post(std::function<void()> command) {
    {
      std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
      waiting_.store(true, std::memory_order_release);
    }
    link_->wake();
  }

  /// Progress thread: runs what was posted before this call.
  void drain() {
    if (!waiting_.load(std::memory_order_acquire)) return;
    std::vector<std::function<void()>> commands;
    {
      std::lock_guard lock(mutex_);
      commands.swap(commands_);
      waiting_.store(false, std::memory_order_release);
    }
    for (auto& command : commands) command();
  }

 private:
  transport::Link* link_;
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> waiting_{false};
};

}  // namespace lynx::server
