#pragma once

// What one seed's world looks like, and the contents that its tickets carry.

#include <cstdint>
#include <random>
#include <vector>

#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "tests/sim/sim_network.h"

namespace lynx::sim {

/// Draws that are the same everywhere, unlike the standard distributions.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  /// 0 … n−1.
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t least, std::int64_t most) { return least + below(most - least + 1); }
  bool percent(int chance) { return below(100) < chance; }

 private:
  std::mt19937 random_;
};

struct WorldPlan {
  SimFaults faults;
  int prefill_nodes = 1;
  int decode_nodes = 1;
  int tickets = 1;
  std::int64_t arrivals_us = 0;  ///< Tickets arrive within this time.
  int abort_percent = 0;
  int poison_percent = 0;  ///< A unit does not decode.
  int deaths = 0;
  int stalls = 0;          ///< Shorter than what makes a session lost.
  bool goes_down = false;  ///< One link is silent for longer than that.
  int strangers = 0;       ///< Messages from outside.
  bool priority_is_checked = false;
  bool two_steps = false;  ///< Some tickets' units have Residuals. Not drawn: the caller's wish.
  std::uint32_t unit_bytes_max = 0;
  server::KvSenderOptions sender;
  server::KvReceiverOptions receiver;
};

WorldPlan draw_plan(Draw& draw);
/// Landing memory for every session that a decode node may have at a time: a node that died may have its session still when its
/// successor comes. draw_plan does it too; call it when there are more nodes or deaths than it drew.
void land_all_sessions(WorldPlan* plan);

/// A unit's plane and bytes follow from its ticket's seed.
struct Content {
  transport::Plane plane = transport::Plane::kBf16;
  std::vector<std::byte> bytes;
};
Content content_of(std::uint64_t ticket_seed, const transport::UnitKey& unit, std::uint32_t unit_bytes_max);

}  // namespace lynx::sim
