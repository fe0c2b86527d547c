#pragma once

#include <memory>
#include <type_traits>

namespace lynx {

/// Fixed threads for the kernels' fork/join loops. Workers spin briefly between jobs, then sleep (an idle pool uses no CPU).
/// One job at a time: run() is called by one thread (the engine's), which takes part as worker 0. Bodies must not throw.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  ///< threads ≥ 1, the caller counted.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Calls body(worker) once on every worker 0 … size()−1 and returns when all have returned.
  template <class Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased([](void* context, int worker) { (*static_cast<Plain*>(context))(worker); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

  /// Calls body(item) for every item 0 … count−1, handed out one by one to whichever worker is free.
  template <class Body>
  void for_each(int count, Body&& body) {
    if (count <= 0) return;
    if (count == 1 || size() == 1) {
      for (int item = 0; item < count; ++item) body(item);
      return;
    }
    reset_items();
    run([&](int) {
      for (int item = next_item(); item < count; item = next_item()) body(item);
    });
  }

 private:
  struct State;
  using ErasedBody = void (*)(void* context, int worker);
  void run_erased(ErasedBody body, void* context);
  void reset_items();
  int next_item();

  std::unique_ptr<State> state_;
};

}  // namespace lynx
