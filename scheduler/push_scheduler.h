#pragma once

// Which ticket sends next, and how much: pure decisions over what is waiting and what receivers granted.
//
// Policy
// - Lane 0 goes before lane 1, for all tickets of all peers. A peer's lane 1 also waits while its lane 0 only waits for its window:
//   what lane 1 put on the wire would stand in front of it. Another peer's lane 1 does not: this one may be silent.
// - In lane 0 the ticket that would be complete first goes first (fewest bytes left), in lane 1 the oldest one.
// - A window a peer and lane bounds what is not acknowledged. Lanes have windows of their own, so lane 1 cannot take lane 0's. A
//   unit counts as a whole from its first chunk on: so what is lost can always be sent again within the window, and a receiver
//   that lands units in memory as large as the window does not run out.
//
// PROGRESSIVE makes windows adaptive (set_window) and adds the age limit of lane 1 (goes_before).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace lynx::scheduler {

using PushPeer = std::uint64_t;
using PushTicket = std::uint64_t;  ///< In order of arrival: a smaller one is older.
inline constexpr int kPushLanes = 2;

/// What one ticket has for one lane.
struct PushLoad {
  PushPeer peer = 0;
  std::uint32_t ready_bytes = 0;      ///< The next piece of a unit that is begun; 0: none.
  std::uint32_t new_unit_bytes = 0;   ///< Most bytes of a unit that could be begun now; 0: none, or a piece is ready first.
  std::uint64_t in_flight_bytes = 0;  ///< Sent, not acknowledged.
  std::uint64_t begun_bytes = 0;      ///< Unacknowledged bytes of units that are begun, sent or not.
  std::uint64_t remaining_bytes = 0;  ///< Of the whole ticket, as far as known: orders lane 0.
};

struct PushDecision {
  PushTicket ticket = 0;
  int lane = 0;
  std::uint32_t max_bytes = 0;
  bool new_unit = false;  ///< It has to be coded first.
};

/// Not thread-safe.
class PushScheduler {
 public:
  explicit PushScheduler(std::uint32_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  void set_window(PushPeer peer, int lane, std::uint64_t bytes);  ///< 0 until the first call: nothing may be sent.
  void remove_peer(PushPeer peer);                                ///< Its loads are removed before.
  void set_load(PushTicket ticket, int lane, const PushLoad& load);
  void remove(PushTicket ticket);

  /// There is no memory for new units of this peer and lane: they do not count as waiting until release_held().
  void hold_new_units(PushPeer peer, int lane);
  bool release_held();  ///< False: none was held.

  /// What to send now. The caller does it and updates the load.
  std::optional<PushDecision> next() const;

 private:
  using LoadKey = std::pair<int, PushTicket>;  ///< Lane first: lane 0 comes before lane 1.
  struct Lane {
    std::uint64_t window = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t begun = 0;
    bool held = false;
  };
  struct Peer {
    Lane lanes[kPushLanes];
  };

  Lane& lane_of(const PushLoad& load, int lane) { return peers_[load.peer].lanes[lane]; }
  static bool waits(const PushLoad& load, const Lane& lane);
  static bool goes_before(const LoadKey& a, const PushLoad& load_a, const LoadKey& b, const PushLoad& load_b);
  std::uint32_t allowance(const PushLoad& load, const Lane& lane) const;

  std::uint32_t chunk_bytes_;
  std::map<PushPeer, Peer> peers_;
  std::map<LoadKey, PushLoad> loads_;
};

}  // namespace lynx::scheduler
