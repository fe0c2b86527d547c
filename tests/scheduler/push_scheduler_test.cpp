#include "scheduler/push_scheduler.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace lynx::scheduler {
namespace {

constexpr std::uint32_t kChunk = 100;

PushLoad ready(PushPeer peer, std::uint32_t bytes, std::uint64_t remaining) {
  return {peer, bytes, 0, 0, bytes, remaining};
}

TEST_CASE("Lane 0 goes first: the ticket that is complete first, then lane 1 in order of arrival") {
  PushScheduler scheduler(kChunk);
  for (int lane : {0, 1}) scheduler.set_window(1, lane, 1000);
  scheduler.set_load(3, 1, ready(1, 50, 10));
  scheduler.set_load(5, 1, ready(1, 70, 5));
  scheduler.set_load(7, 0, ready(1, 500, 900));
  scheduler.set_load(8, 0, ready(1, 60, 60));
  auto expect = [&](PushTicket ticket, int lane, std::uint32_t bytes) {
    auto decision = scheduler.next(0);
    REQUIRE(decision.has_value());
    CHECK(decision->ticket == ticket);
    CHECK(decision->lane == lane);
    CHECK(decision->max_bytes == bytes);
    CHECK_FALSE(decision->new_unit);
    scheduler.remove(ticket);
  };
  expect(8, 0, 60);
  expect(7, 0, kChunk);
  expect(3, 1, 50);
  expect(5, 1, 70);
  CHECK_FALSE(scheduler.next(0).has_value());
}

TEST_CASE("Lane 1 waits while its own peer's lane 0 waits for the window, not for another's, and not for memory") {
  PushScheduler scheduler(kChunk);
  for (PushPeer peer : {1, 2}) {
    for (int lane : {0, 1}) scheduler.set_window(peer, lane, 200);
  }
  scheduler.set_load(1, 0, {1, 50, 0, 200, 250, 1000});  // Its window is full.
  scheduler.set_load(2, 1, ready(1, 50, 50));
  CHECK_FALSE(scheduler.next(0).has_value());
  scheduler.set_load(3, 1, ready(2, 50, 50));
  CHECK(scheduler.next(0)->ticket == 3);
  scheduler.set_load(1, 0, {1, 0, 90, 0, 0, 1000});
  CHECK(scheduler.next(0)->ticket == 1);
  CHECK(scheduler.next(0)->new_unit);
  scheduler.hold_new_units(1, 0);
  CHECK(scheduler.next(0)->ticket == 2);
  CHECK(scheduler.release_held());
  CHECK_FALSE(scheduler.release_held());
  CHECK(scheduler.next(0)->ticket == 1);
}

TEST_CASE("Nothing goes before the first grant, and a unit larger than the window goes in pieces") {
  PushScheduler scheduler(kChunk);
  scheduler.set_window(1, 0, 0);
  scheduler.set_load(1, 0, {1, 0, 500, 0, 0, 500});
  CHECK_FALSE(scheduler.next(0).has_value());
  scheduler.set_window(1, 0, 60);
  CHECK(scheduler.next(0)->max_bytes == 60);
  scheduler.set_load(1, 0, {1, 440, 0, 60, 500, 500});
  CHECK_FALSE(scheduler.next(0).has_value());
  scheduler.set_load(1, 0, {1, 440, 0, 0, 440, 440});
  CHECK(scheduler.next(0)->max_bytes == 60);
  scheduler.remove(1);
  scheduler.remove_peer(1);
  CHECK_FALSE(scheduler.next(0).has_value());
}

// The policy in its own words, slowly.
struct Oracle {
  struct Entry {
    PushTicket ticket;
    int lane;
    PushLoad load;
  };
  std::vector<Entry> entries;
  std::int64_t now_us = 0;
  std::int64_t age_us = 0;
  std::uint64_t windows[3][2] = {};
  std::uint64_t chunks[3][2] = {};
  std::uint64_t overlaps[3] = {};
  bool held[3][2] = {};

  std::uint64_t sum(PushPeer peer, int lane, std::uint64_t PushLoad::*what) const {
    std::uint64_t total = 0;
    for (const Entry& each : entries) {
      if (each.load.peer == peer && each.lane == lane) total += each.load.*what;
    }
    return total;
  }
  bool is_held_back(const Entry& each) const {
    if (each.lane == 1 || each.load.begun) return false;
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return other.lane == 1 && other.load.peer == each.load.peer && other.load.oldest_us != PushLoad::kNoAge &&
             now_us - other.load.oldest_us > age_us;
    });
  }
  bool waits(const Entry& each) const {
    if (is_held_back(each)) return false;
    return each.load.ready_bytes > 0 || (each.load.new_unit_bytes > 0 && !held[each.load.peer][each.lane]);
  }
  std::uint64_t may_send(const Entry& each) const {
    const std::uint64_t window = windows[each.load.peer][each.lane];
    const std::uint64_t most = std::min({window, std::uint64_t{kChunk}, chunks[each.load.peer][each.lane]});
    if (!waits(each)) return 0;
    if (each.lane == 1) {
      if (sum(each.load.peer, 0, &PushLoad::in_flight_bytes) > overlaps[each.load.peer]) return 0;
      for (const Entry& other : entries) {
        if (other.lane == 0 && other.load.peer == each.load.peer && waits(other)) return 0;
      }
    }
    if (each.load.ready_bytes > 0) {
      const std::uint64_t piece = std::min<std::uint64_t>(each.load.ready_bytes, most);
      return sum(each.load.peer, each.lane, &PushLoad::in_flight_bytes) + piece > window ? 0 : piece;
    }
    const std::uint64_t begun = sum(each.load.peer, each.lane, &PushLoad::begun_bytes);
    if (begun > 0 && begun + each.load.new_unit_bytes > window) return 0;
    return std::min<std::uint64_t>(each.load.new_unit_bytes, most);
  }
  const Entry* choose() const {
    auto order = [](const Entry* entry) {
      return std::tuple(entry->lane, entry->lane == 0 ? entry->load.remaining_bytes : 0, entry->ticket);
    };
    const Entry* best = nullptr;
    for (const Entry& each : entries) {
      if (may_send(each) > 0 && (best == nullptr || order(&each) < order(best))) best = &each;
    }
    return best;
  }
};

TEST_CASE("Lane 1 waits while more of its peer's lane 0 is unacknowledged than fills the path") {
  PushScheduler scheduler(kChunk);
  for (PushPeer peer : {1, 2}) {
    for (int lane : {0, 1}) scheduler.set_window(peer, lane, 1000);
    scheduler.set_load(static_cast<PushTicket>(peer), 1, ready(peer, 50, 50));
  }
  scheduler.set_load(3, 0, {1, 0, 0, 300, 300, 300});
  CHECK(scheduler.next(0)->ticket == 1);
  scheduler.set_overlap(1, 299);
  CHECK(scheduler.next(0)->ticket == 2);  // Another peer's goes on.
  scheduler.set_overlap(1, 300);
  CHECK(scheduler.next(0)->ticket == 1);
  scheduler.set_chunk(1, 1, 20);
  CHECK(scheduler.next(0)->max_bytes == 20);
}

TEST_CASE("New tickets wait while the oldest Residual of their peer is over its age limit; those that have begun do not") {
  PushScheduler scheduler(kChunk, 1000);
  for (PushPeer peer : {1, 2}) {
    for (int lane : {0, 1}) scheduler.set_window(peer, lane, 1000);
  }
  PushLoad residual = ready(1, 50, 50);
  residual.oldest_us = 5000;
  scheduler.set_load(1, 1, residual);
  PushLoad fresh{1, 0, 60, 0, 0, 60};
  fresh.begun = false;
  scheduler.set_load(2, 0, fresh);
  CHECK(scheduler.next(6000)->ticket == 2);
  CHECK(scheduler.next(6001)->ticket == 1);  // And the new one does not hold up lane 1 while it waits.
  scheduler.set_load(3, 0, ready(1, 70, 70));
  CHECK(scheduler.next(6001)->ticket == 3);
  scheduler.remove(3);
  fresh.peer = 2;
  scheduler.set_load(4, 0, fresh);
  CHECK(scheduler.next(6001)->ticket == 4);
  scheduler.remove(4);
  residual.oldest_us = 6000;  // The old unit is acknowledged.
  scheduler.set_load(1, 1, residual);
  CHECK(scheduler.next(6001)->ticket == 2);
}

TEST_CASE("Every decision is that of the policy written out, in random worlds") {
  int sent = 0, waited = 0;
  for (std::uint32_t seed = 1; seed <= 20000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    Oracle oracle;
    oracle.now_us = below(3000);
    oracle.age_us = below(2000);
    PushScheduler scheduler(kChunk, oracle.age_us);
    for (PushPeer peer = 0; peer < 3; ++peer) {
      oracle.overlaps[peer] = std::numeric_limits<std::uint64_t>::max();
      if (below(2) == 0) scheduler.set_overlap(peer, oracle.overlaps[peer] = below(2) * below(600));
      for (int lane : {0, 1}) {
        oracle.chunks[peer][lane] = std::numeric_limits<std::uint32_t>::max();
        if (below(3) == 0) scheduler.set_chunk(peer, lane, static_cast<std::uint32_t>(oracle.chunks[peer][lane] = 1 + below(150)));
        oracle.windows[peer][lane] = below(3) == 0 ? below(50) : below(2000);
        scheduler.set_window(peer, lane, oracle.windows[peer][lane]);
      }
    }
    for (PushTicket ticket = 0; ticket < 6; ++ticket) {
      const PushPeer peer = below(3);
      for (int lane : {0, 1}) {
        PushLoad load{peer, below(2) * below(300), 0, below(2) * below(300), 0, below(4)};
        if (lane == 0) load.begun = below(2) == 0;
        if (lane == 1 && below(2) == 0) load.oldest_us = below(3000);
        if (load.ready_bytes == 0) load.new_unit_bytes = below(2) * below(300);
        load.begun_bytes = load.in_flight_bytes + load.ready_bytes + below(2) * below(200);
        // Loads change: only the last one counts.
        scheduler.set_load(ticket, lane, {peer, below(50), 0, below(500), below(500), below(4)});
        scheduler.set_load(ticket, lane, load);
        oracle.entries.push_back({ticket, lane, load});
      }
    }
    if (below(3) == 0) {
      const PushPeer peer = below(3);
      const auto lane = static_cast<int>(below(2));
      scheduler.hold_new_units(peer, lane);
      oracle.held[peer][lane] = true;
    }
    if (below(3) == 0) {
      const PushTicket gone = below(6);
      scheduler.remove(gone);
      std::erase_if(oracle.entries, [gone](const auto& entry) { return entry.ticket == gone; });
    }
    const auto decision = scheduler.next(oracle.now_us);
    const Oracle::Entry* expected = oracle.choose();
    REQUIRE(decision.has_value() == (expected != nullptr));
    ++(decision ? sent : waited);
    if (!decision) continue;
    REQUIRE(decision->ticket == expected->ticket);
    REQUIRE(decision->lane == expected->lane);
    REQUIRE(decision->max_bytes == oracle.may_send(*expected));
    REQUIRE(decision->new_unit == (expected->load.ready_bytes == 0));
  }
  CHECK(sent > 1000);
  CHECK(waited > 1000);
}

}  // namespace
}  // namespace lynx::scheduler
