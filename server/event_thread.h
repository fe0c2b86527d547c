#pragma once

// A thread that carries out tasks in order, and ticks: where events from many threads become one story.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lynx::server {

class EventThread {
 public:
  using Task = std::function<void()>;
  /// Called after every task and at the latest at the time it returned last (µs of the steady clock; INT64_MAX: never).
  using Tick = std::function<std::int64_t(std::int64_t now_us)>;

  ~EventThread() { stop(); }

  void start(Tick tick);
  /// Any thread. Tasks that come before start() wait for it; those that come after stop() are dropped.
  void post(Task task);
  /// Not by a task. Tasks that wait are dropped; none runs afterwards. Idempotent.
  void stop();

  static std::int64_t now_us();

 private:
  void run(const Tick& tick);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace lynx::server
