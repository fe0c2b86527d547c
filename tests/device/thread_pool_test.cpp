#include "device/thread_pool.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace lynx {
namespace {

TEST_CASE("run calls the body once on every worker, and what the bodies wrote is visible afterwards") {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    REQUIRE(pool.size() == threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);  // Plain ints: the pool must order the accesses (TSan).
    for (int round = 0; round < 2000; ++round) {
      pool.run([&](int worker) { ++calls[static_cast<std::size_t>(worker)]; });
      REQUIRE(calls == std::vector<int>(static_cast<std::size_t>(threads), round + 1));
    }
  }
}

TEST_CASE("for_each hands out every item exactly once") {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (int count = 0; count <= 65; ++count) {
      std::vector<int> calls(static_cast<std::size_t>(count), 0);
      pool.for_each(count, [&](int item) { ++calls[static_cast<std::size_t>(item)]; });
      REQUIRE(calls == std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

TEST_CASE("Worker 0 is the calling thread") {
  ThreadPool pool(3);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::thread::id> ids(3);
  pool.run([&](int worker) { ids[static_cast<std::size_t>(worker)] = std::this_thread::get_id(); });
  CHECK(ids[0] == caller);
  CHECK(ids[1] != caller);
  CHECK(ids[2] != caller);
  CHECK(ids[1] != ids[2]);
}

TEST_CASE("Jobs are found by workers that spin, that just fell asleep and that sleep") {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  int jobs = 0;
  for (int pause_us : {0, 1, 3, 10, 30, 100, 1000, 5000}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      pool.run([&](int worker) {
        // The caller too must find late workers, awake or asleep.
        if (worker == 3) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        calls.fetch_add(1);
      });
      ++jobs;
    }
  }
  CHECK(calls.load() == 4 * jobs);
}

TEST_CASE("Pools come and go, used or not") {
  for (int round = 0; round < 50; ++round) {
    ThreadPool unused(3);
    ThreadPool used(3);
    std::atomic<int> sum{0};
    used.for_each(10, [&](int item) { sum.fetch_add(item); });
    CHECK(sum.load() == 45);
  }
}

TEST_CASE("Several pools work side by side") {
  std::vector<std::thread> owners;
  std::atomic<int> sum{0};
  for (int owner = 0; owner < 3; ++owner) {
    owners.emplace_back([&] {
      ThreadPool pool(2);
      for (int round = 0; round < 200; ++round) pool.for_each(5, [&](int item) { sum.fetch_add(item); });
    });
  }
  for (std::thread& owner : owners) owner.join();
  CHECK(sum.load() == 3 * 200 * 10);
}

TEST_CASE("An idle pool uses no processor time") {
  ThreadPool pool(4);
  pool.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Workers stop spinning.
  auto cpu_us = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  };
  const auto before = cpu_us();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(cpu_us() - before < 100'000);  // Processor time, not wall time: three spinning workers would use up to 600 ms.
}

}  // namespace
}  // namespace lynx
