#include "device/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <thread>
#include <vector>

namespace lynx {
namespace {

// Long enough to bridge the gap between two kernels of one layer, short enough to cost nothing where the cores are shared.
constexpr int kSpins = 200;
constexpr std::size_t kCacheLineBytes = 64;

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word, int waiters) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, waiters, nullptr, nullptr, 0);
}

/// A counter that threads wait on: they spin, then sleep. Whoever changes it pays for a system call only if someone sleeps.
/// Sequentially consistent: a changer must see the sleeper, or the sleeper the change.
class alignas(kCacheLineBytes) WaitableCounter {
 public:
  std::uint32_t value() const { return value_.load(); }
  void add(std::uint32_t delta) { value_.fetch_add(delta); }

  void wake(int waiters) {
    if (sleepers_.load() > 0) futex_wake(value_, waiters);
  }

  /// Returns the first value that `is_wanted` accepts.
  template <class Predicate>
  std::uint32_t wait_until(Predicate is_wanted) {
    for (int spin = 0; spin < kSpins; ++spin) {
      const std::uint32_t now = value_.load();
      if (is_wanted(now)) return now;
      _mm_pause();
    }
    sleepers_.fetch_add(1);
    std::uint32_t now = value_.load();
    while (!is_wanted(now)) {
      futex_wait(value_, now);
      now = value_.load();
    }
    sleepers_.fetch_sub(1);
    return now;
  }

 private:
  std::atomic<std::uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace

struct ThreadPool::State {
  WaitableCounter started;  ///< Jobs begun; a change tells the workers to go.
  WaitableCounter running;  ///< Workers still in the present job; 0 tells the caller to go on.
  alignas(kCacheLineBytes) std::atomic<int> next_item{0};

  // Written by the caller before `started` changes, read by the workers after it has.
  ErasedBody body = nullptr;
  void* context = nullptr;
  bool stopping = false;

  std::vector<std::thread> workers;

  void work(int worker) {
    for (std::uint32_t seen = 0;;) {
      seen = started.wait_until([seen](std::uint32_t now) { return now != seen; });
      if (stopping) return;
      body(context, worker);
      running.add(~std::uint32_t{0});
      if (running.value() == 0) running.wake(1);
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  state_->workers.reserve(static_cast<std::size_t>(threads > 1 ? threads - 1 : 0));
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  state_->started.add(1);
  state_->started.wake(INT_MAX);
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::run_erased(ErasedBody body, void* context) {
  State& state = *state_;
  if (state.workers.empty()) {
    body(context, 0);
    return;
  }
  state.body = body;
  state.context = context;
  state.running.add(static_cast<std::uint32_t>(state.workers.size()));
  state.started.add(1);
  state.started.wake(INT_MAX);
  body(context, 0);
  state.running.wait_until([](std::uint32_t now) { return now == 0; });
}

void ThreadPool::reset_items() {
  state_->next_item.store(0, std::memory_order_relaxed);
}

int ThreadPool::next_item() {
  return state_->next_item.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace lynx
