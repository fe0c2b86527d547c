#include "scheduler/residual_window.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/catch.h"
#include "tests/scheduler/link_model.h"

namespace lynx::scheduler {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::uint64_t kUnit = 24 << 10;

/// A sender with an endless backlog, and bursts of lane 0 if wished, over a LinkModel; holds the window to its bounds at every
/// step.
class Flow {
 public:
  Flow(const LinkModel::Path& path, std::uint32_t seed, const ResidualWindowOptions& options = {})
      : options_(options), window_(options), link_(path, seed), random_(seed) {}

  LinkModel& link() { return link_; }
  ResidualWindow& window() { return window_; }

  /// Bytes of lane 1 acknowledged in so long. Queueing delays of lane 1's chunks go to `waits_us`.
  std::uint64_t run(std::int64_t us, std::vector<std::int64_t>* waits_us = nullptr) {
    const std::int64_t end_us = now_us_ + us;
    std::uint64_t acked = 0;
    for (;;) {
      send(waits_us);
      const std::int64_t next_us = std::min(link_.next_ack_us(), next_burst_us_);
      if (next_us > end_us) break;
      now_us_ = std::max(now_us_, next_us);
      if (next_us == next_burst_us_) {
        burst_left_ += burst_bytes_;
        next_burst_us_ += std::uniform_int_distribution<std::int64_t>(50'000, 200'000)(random_);
        continue;
      }
      const LinkModel::Ack ack = link_.take_ack(now_us_);
      for (int lane : {0, 1}) {
        if (ack.bytes[lane] > 0) window_.on_acked(lane, ack.bytes[lane], ack.newest_sent_us[lane], now_us_);
      }
      acked += ack.bytes[1];
      check_bounds();
    }
    now_us_ = end_us;
    return acked;
  }

  void set_bursts(std::uint64_t bytes) {
    burst_bytes_ = bytes;
    next_burst_us_ = now_us_;
  }
  /// Nothing is sent, all that is on its way arrives.
  void pause(std::int64_t us) {
    for (const std::int64_t end_us = now_us_ + us; link_.next_ack_us() <= end_us;) {
      now_us_ = link_.next_ack_us();
      link_.take_ack(now_us_);
    }
    now_us_ += us;
  }

 private:
  void send(std::vector<std::int64_t>* waits_us) {
    for (; burst_left_ > 0; burst_left_ -= std::min(burst_left_, kUnit)) {
      link_.send(0, std::min(burst_left_, kUnit), now_us_);
      window_.on_anchor_sent(now_us_);
    }
    while (link_.in_flight(0) <= window_.overlap_bytes() && link_.in_flight(1) + kUnit <= window_.window_bytes()) {
      const std::int64_t wait_us = link_.send(1, kUnit, now_us_);
      if (waits_us != nullptr) waits_us->push_back(wait_us);
    }
  }
  void check_bounds() {
    REQUIRE(window_.window_bytes() >= options_.floor_bytes);
    REQUIRE(window_.window_bytes() <= options_.cap_bytes);
    REQUIRE(std::has_single_bit(window_.chunk_bytes()));
    REQUIRE(window_.chunk_bytes() >= options_.chunk_bytes_min);
    REQUIRE(window_.chunk_bytes() <= options_.chunk_bytes_max);
    const bool small = window_.chunk_bytes() <= std::max<std::uint64_t>(window_.window_bytes() / 4, options_.chunk_bytes_min);
    REQUIRE(small);
  }

  ResidualWindowOptions options_;
  ResidualWindow window_;
  LinkModel link_;
  std::mt19937 random_;
  std::int64_t now_us_ = kSecond;
  std::uint64_t burst_bytes_ = 0;
  std::uint64_t burst_left_ = 0;
  std::int64_t next_burst_us_ = std::numeric_limits<std::int64_t>::max();
};

std::int64_t percentile(std::vector<std::int64_t> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::int64_t queue_us(std::int64_t delay_us) {
  const ResidualWindowOptions options;
  return std::min(options.queue_us + delay_us / 8, options.queue_us_max);
}

TEST_CASE("The window begins, and stays, within its bounds") {
  const ResidualWindow fresh;
  CHECK(fresh.window_bytes() == 64 << 10);
  CHECK(fresh.chunk_bytes() == 16 << 10);
  CHECK(fresh.overlap_bytes() == 0);
  CHECK(fresh.rate_bytes_per_s() == 0);
  CHECK(ResidualWindow({.first_bytes = 1}).window_bytes() == 64 << 10);
  CHECK(ResidualWindow({.floor_bytes = 1000, .cap_bytes = 40'000}).window_bytes() == 40'000);
  // A path that takes all at once, and one that takes next to nothing.
  Flow quick({.bytes_per_us = 1e6, .delay_us = 200'000, .ack_us = 1000}, 1, {.cap_bytes = 4 << 20});
  quick.run(20 * kSecond);
  CHECK(quick.window().window_bytes() == 4 << 20);
  CHECK(quick.window().chunk_bytes() == 256 << 10);
  Flow slow({.bytes_per_us = 0.5, .delay_us = 1000}, 1);
  slow.run(20 * kSecond);
  CHECK(slow.window().window_bytes() < 100'000);
}

TEST_CASE("On any path the window fills the link and keeps a queue of about D") {
  int runs = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const double mbit = std::vector<double>{100, 200, 1000, 2500}[random() % 4];
    const std::int64_t delay_us = std::vector<std::int64_t>{100, 500, 2'000, 20'000, 60'000}[random() % 5];
    const LinkModel::Path path{.bytes_per_us = mbit / 8,
                               .delay_us = delay_us,
                               .ack_us = 200 + static_cast<std::int64_t>(random() % 500),
                               .stall_us_max = static_cast<std::int64_t>(random() % 2) * 1500,
                               .stalls_per_s = 20};
    CAPTURE(mbit, path.delay_us, path.ack_us, path.stall_us_max);
    Flow flow(path, seed);
    flow.run(4 * kSecond);
    std::vector<std::int64_t> waits_us;
    const std::uint64_t acked = flow.run(25 * kSecond, &waits_us);
    CHECK(static_cast<double>(acked) >= 0.95 * 25 * kSecond * path.bytes_per_us);
    // A chunk's own time on the wire, and that acknowledgements come together, is what D cannot know of.
    const auto chunk_us = static_cast<std::int64_t>(kUnit / path.bytes_per_us);
    CHECK(percentile(waits_us, 0.5) <= queue_us(delay_us) + chunk_us + path.ack_us + 200);
    CHECK(percentile(waits_us, 0.99) <= queue_us(delay_us) * 3 / 2 + 2 * chunk_us + path.ack_us + delay_us / 8 + path.stall_us_max);
    ++runs;
  }
  CHECK(runs == 60);
}

TEST_CASE("After a change of the rate or the delay the window follows") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const std::int64_t delay_us = seed % 2 == 0 ? 300 : 20'000;
    Flow flow({.bytes_per_us = 125, .delay_us = delay_us}, seed);
    flow.run(5 * kSecond);
    flow.link().set_rate(12.5);
    flow.run(kSecond);
    std::vector<std::int64_t> waits_us;
    CHECK(static_cast<double>(flow.run(4 * kSecond, &waits_us)) >= 0.95 * 4 * kSecond * 12.5);
    CHECK(percentile(waits_us, 0.5) <= 2 * queue_us(delay_us) + 4'000);
    flow.link().set_rate(125);
    flow.run(2 * kSecond);
    CHECK(static_cast<double>(flow.run(4 * kSecond)) >= 0.95 * 4 * kSecond * 125);
    flow.link().set_delay(delay_us + 10'000);
    flow.run(5 * kSecond);
    CHECK(static_cast<double>(flow.run(4 * kSecond)) >= 0.95 * 4 * kSecond * 125);
    flow.link().set_delay(delay_us);  // The queue that fills the gap hides it until RTTmin is measured anew.
    flow.run(12 * kSecond);
    waits_us.clear();
    CHECK(static_cast<double>(flow.run(4 * kSecond, &waits_us)) >= 0.95 * 4 * kSecond * 125);
    CHECK(percentile(waits_us, 0.5) <= queue_us(delay_us) + 1'500);
  }
}

TEST_CASE("Anchors leave the window as it was, and it fills what they leave of the link") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const std::int64_t delay_us = seed % 2 == 0 ? 300 : 20'000;
    const double rate = seed % 4 < 2 ? 125 : 25;
    Flow flow({.bytes_per_us = rate, .delay_us = delay_us}, seed);
    flow.run(4 * kSecond);
    const auto before = static_cast<double>(flow.window().window_bytes());
    const std::uint64_t burst = rate > 100 ? 2 << 20 : 512 << 10;
    flow.set_bursts(burst);
    flow.run(20 * kSecond);
    CHECK(static_cast<double>(flow.window().window_bytes()) >= 0.8 * before);
    CHECK(static_cast<double>(flow.window().window_bytes()) <= 1.3 * before);
  }
}

TEST_CASE("A pause is not a slow link") {
  Flow flow({.bytes_per_us = 125, .delay_us = 2'000}, 1);
  flow.run(5 * kSecond);
  const std::uint64_t rate = flow.window().rate_bytes_per_s();
  const std::uint64_t window = flow.window().window_bytes();
  flow.pause(60 * kSecond);
  CHECK(flow.window().rate_bytes_per_s() == rate);
  CHECK(static_cast<double>(flow.run(kSecond)) >= 0.9 * kSecond * 125);
  CHECK(static_cast<double>(flow.window().window_bytes()) >= 0.8 * static_cast<double>(window));
}

TEST_CASE("The window's own queue is not taken for the path") {
  Flow flow({.bytes_per_us = 125, .delay_us = 400}, 3);
  flow.run(120 * kSecond);  // Many times the 10 s of RTTmin.
  std::vector<std::int64_t> waits_us;
  flow.run(10 * kSecond, &waits_us);
  CHECK(percentile(waits_us, 0.5) <= queue_us(400) + 700);
  CHECK(flow.window().rtt_min_us() < 1'500);
}

}  // namespace
}  // namespace lynx::scheduler
