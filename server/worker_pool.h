#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http_message.h"

namespace lynx::server {

/// A few threads for work that would hold up the I/O thread: parsing and tokenizing large bodies.
class WorkerPool final : public TaskRunner {
 public:
  explicit WorkerPool(int threads);
  /// Drops tasks that have not begun, waits for those that have.
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Any thread. Tasks must not throw.
  void post(std::function<void()> task) override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lynx::server
