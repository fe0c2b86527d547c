// Tickets of Anchors and Residuals over one link, decided by the real PushScheduler, in seeded random worlds that offer more than
// the link carries for a while: strict priority, and nothing waits for ever.

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "scheduler/push_scheduler.h"
#include "tests/catch.h"

namespace lynx::scheduler {
namespace {

constexpr std::int64_t kAgeUs = 200'000;
constexpr std::uint32_t kUnit = 1000;
constexpr std::int64_t kUnitUs = 100;  ///< On the wire.
constexpr std::uint64_t kWindow = 8 * kUnit;

struct Job {
  std::int64_t arrived_us = 0;
  std::uint64_t left[kPushLanes] = {};       ///< Not sent.
  std::uint64_t in_flight[kPushLanes] = {};  ///< Sent, not acknowledged.
  bool begun = false;
};

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed), scheduler_(kUnit, kAgeUs) {
    for (int lane : {0, 1}) scheduler_.set_window(1, lane, kWindow);
    scheduler_.set_overlap(1, static_cast<std::uint64_t>(below(2)) * 4 * kUnit);
    lanes_in_ticket_ = below(4);
  }

  /// "" or the first broken rule.
  std::string run() {
    const std::int64_t flood_us = 1'000'000;
    std::int64_t next_arrival_us = 0;
    // A step is a unit on the wire; what was sent is acknowledged some steps later.
    for (now_us_ = 0; now_us_ < 20 * flood_us && failure_.empty(); now_us_ += kUnitUs) {
      while (now_us_ >= next_arrival_us && now_us_ < flood_us) {
        arrive();
        next_arrival_us += 1 + below(8000);  // Anchors alone are more than the link, at times.
      }
      while (!flight_.empty() && flight_.begin()->first <= now_us_) acknowledge();
      send();
      if (jobs_.empty() && now_us_ >= flood_us) break;
    }
    if (failure_.empty() && !jobs_.empty()) return "tickets wait for ever";
    return failure_;
  }

  int held_back() const { return held_back_; }
  std::int64_t oldest_us() const { return oldest_us_; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void arrive() {
    Job& job = jobs_[next_ticket_];
    job.arrived_us = now_us_;
    job.left[0] = static_cast<std::uint64_t>(1 + below(60)) * kUnit;
    if (lanes_in_ticket_ != 0) job.left[1] = static_cast<std::uint64_t>(1 + below(60)) * kUnit;
    update(next_ticket_++);
  }

  void update(PushTicket ticket) {
    const Job& job = jobs_.at(ticket);
    for (int lane : {0, 1}) {
      PushLoad load;
      load.peer = 1;
      load.new_unit_bytes = job.left[lane] > 0 ? kUnit : 0;
      load.in_flight_bytes = load.begun_bytes = job.in_flight[lane];
      load.remaining_bytes = job.left[lane] + job.in_flight[lane];
      load.begun = lane == 1 || job.begun;
      if (lane == 1 && load.remaining_bytes > 0) load.oldest_us = job.arrived_us;
      scheduler_.set_load(ticket, lane, load);
    }
  }

  bool is_over_age() const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& each) {
      return each.second.left[1] + each.second.in_flight[1] > 0 && now_us_ - each.second.arrived_us > kAgeUs;
    });
  }

  void send() {
    const auto decision = scheduler_.next(now_us_);
    const bool over_age = is_over_age();
    for (const auto& [ticket, job] : jobs_) {
      if (job.left[1] + job.in_flight[1] > 0) oldest_us_ = std::max(oldest_us_, now_us_ - job.arrived_us);
      if (over_age && !job.begun) ++held_back_;
    }
    if (!decision) {
      if (flight_.empty() && !jobs_.empty()) failure_ = "nothing goes though something waits";
      return;
    }
    Job& job = jobs_.at(decision->ticket);
    if (decision->lane == 0 && !job.begun && over_age) failure_ = "a new ticket begins while a Residual is over its age";
    if (decision->lane == 1) {
      for (const auto& [ticket, other] : jobs_) {
        if (other.left[0] > 0 && (other.begun || !over_age)) failure_ = "a Residual goes before an Anchor";
      }
    }
    job.begun = job.begun || decision->lane == 0;
    job.left[decision->lane] -= kUnit;
    job.in_flight[decision->lane] += kUnit;
    flight_.emplace(now_us_ + 4 * kUnitUs, *decision);
    update(decision->ticket);
  }

  void acknowledge() {
    const PushDecision sent = flight_.begin()->second;
    flight_.erase(flight_.begin());
    Job& job = jobs_.at(sent.ticket);
    job.in_flight[sent.lane] -= kUnit;
    if (job.left[0] + job.left[1] + job.in_flight[0] + job.in_flight[1] > 0) return update(sent.ticket);
    scheduler_.remove(sent.ticket);
    jobs_.erase(sent.ticket);
  }

  std::mt19937 random_;
  PushScheduler scheduler_;
  int lanes_in_ticket_ = 0;
  std::int64_t now_us_ = 0;
  PushTicket next_ticket_ = 0;
  std::map<PushTicket, Job> jobs_;
  std::multimap<std::int64_t, PushDecision> flight_;
  int held_back_ = 0;
  std::int64_t oldest_us_ = 0;
  std::string failure_;
};

TEST_CASE("In random worlds Anchors go first, nothing waits for ever, and an old Residual is let through") {
  int held_back = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    World world(seed);
    REQUIRE(world.run() == "");
    held_back += world.held_back();
    // A Residual that is over its age waits for what has begun already and for older Residuals, not for what comes.
    CHECK(world.oldest_us() < 10 * kAgeUs);
  }
  CHECK(held_back > 1000);
}

}  // namespace
}  // namespace lynx::scheduler
