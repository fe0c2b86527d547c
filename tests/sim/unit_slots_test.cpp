#include "server/unit_slots.h"

#include <random>
#include <set>

#include "tests/catch.h"

namespace lynx::server {
namespace {

using transport::Lane;

constexpr std::size_t kUnit = 100;
constexpr std::size_t kSlot = 128;  // Whole cache lines.

TEST_CASE("Slots are as many as fit, and do not overlap") {
  std::vector<std::byte> memory(10 * kSlot + 5);
  UnitSlots slots(memory, kUnit);
  CHECK(slots.size() == 10);
  slots.add_session(1);
  std::set<const std::byte*> starts;
  while (auto slot = slots.take({1, Lane::kHigh})) {
    CHECK(slots.bytes(*slot).size() == kSlot);
    CHECK(slots.bytes(*slot).data() + kSlot <= memory.data() + memory.size());
    CHECK(starts.insert(slots.bytes(*slot).data()).second);
  }
  CHECK(slots.in_use() == starts.size());
  CHECK_FALSE(slots.take({2, Lane::kHigh}).has_value());  // No such session.
}

TEST_CASE("Whoever takes all it can leaves a share for every lane of every session, and for the next one") {
  std::vector<std::byte> memory(100 * kSlot);
  UnitSlots slots(memory, kUnit);
  auto drain = [&slots](SlotAccount account) {
    int taken = 0;
    while (slots.take(account)) ++taken;
    return taken;
  };
  slots.add_session(1);
  CHECK(drain({1, Lane::kBackground}) == 100 - 3 * 12);  // 12: half of the slots over 2 lanes of 2 sessions.
  CHECK(drain({1, Lane::kHigh}) == 12);
  slots.add_session(2);
  CHECK(drain({2, Lane::kHigh}) >= 8);
  CHECK(drain({2, Lane::kBackground}) >= 8);
}

TEST_CASE("With a slot for each lane of each session every account gets one, and the next session too if there are more") {
  for (std::uint64_t sessions = 1; sessions <= 8; ++sessions) {
    CAPTURE(sessions);
    for (const std::size_t more : {0, 1, 2}) {
      CAPTURE(more);
      std::vector<std::byte> memory((2 * sessions + more) * kSlot);
      UnitSlots slots(memory, kUnit);
      for (std::uint64_t session = 1; session <= sessions; ++session) {
        REQUIRE(slots.serve_another_session());
        slots.add_session(session);
      }
      for (std::uint64_t session = 1; session <= sessions; ++session) {
        for (const Lane lane : {Lane::kHigh, Lane::kBackground}) {
          CHECK(slots.take({session, lane}).has_value());
          while (slots.take({session, lane})) continue;
        }
      }
      CHECK(slots.serve_another_session() == (more == 2));
      slots.add_session(99);
      for (const Lane lane : {Lane::kHigh, Lane::kBackground}) CHECK((more < 2 || slots.take({99, lane}).has_value()));
    }
  }
}

TEST_CASE("A slot is free when its last reference is dropped, also after its session") {
  std::vector<std::byte> memory(2 * kSlot);
  UnitSlots slots(memory, kUnit);
  slots.add_session(1);
  auto slot = slots.take({1, Lane::kHigh});
  REQUIRE(slot.has_value());
  slots.hold(*slot);
  CHECK_FALSE(slots.drop(*slot));
  slots.remove_session(1);
  CHECK(slots.in_use() == 1);
  CHECK(slots.drop(*slot));
  CHECK(slots.in_use() == 0);
}

TEST_CASE("Under random use no slot is lost or given out twice, and every account gets one when it holds none") {
  std::mt19937 random(3);
  std::vector<std::byte> memory(24 * kSlot);
  UnitSlots slots(memory, kUnit);
  for (std::uint64_t session : {1, 2, 3}) slots.add_session(session);
  std::map<SlotAccount, std::vector<UnitSlots::Index>> held;
  std::size_t total = 0;
  for (int step = 0; step < 20000; ++step) {
    SlotAccount account{1 + random() % 3, static_cast<Lane>(random() % 2)};
    auto& own = held[account];
    if (random() % 5 < 3) {
      auto slot = slots.take(account);
      if (own.empty()) REQUIRE(slot.has_value());
      if (!slot) continue;
      for (const auto& [other, indices] : held) REQUIRE(std::count(indices.begin(), indices.end(), *slot) == 0);
      own.push_back(*slot);
      ++total;
    } else if (!own.empty()) {
      REQUIRE(slots.drop(own.back()));
      own.pop_back();
      --total;
    }
    REQUIRE(slots.in_use() == total);
  }
}

}  // namespace
}  // namespace lynx::server
