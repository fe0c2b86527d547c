#include "server/event_thread.h"

#include <chrono>
#include <limits>
#include <utility>

namespace lynx::server {

std::int64_t EventThread::now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void EventThread::start(Tick tick) {
  thread_ = std::thread([this, tick = std::move(tick)] { run(tick); });
}

void EventThread::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void EventThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
}

void EventThread::run(const Tick& tick) {
  std::int64_t next_us = 0;
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      const auto news = [this] { return stopped_ || !tasks_.empty(); };
      if (next_us == std::numeric_limits<std::int64_t>::max()) {
        changed_.wait(lock, news);
      } else {
        changed_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::microseconds(next_us)), news);
      }
      if (stopped_) return;
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
    }
    if (task) task();
    next_us = tick(now_us());
  }
}

}  // namespace lynx::server
