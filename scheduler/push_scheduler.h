#pragma once

// Which ticket sends next, and how much: pure decisions over what is waiting and what receivers granted.
//
// Policy
// - Lane 0 goes before lane 1, for all tickets of all peers. A peer's lane 1 also waits while its lane 0 only waits for its window:
//   what lane 1 put on the wire would stand in front of it. Another peer's lane 1 does not: this one may be silent.
// - It also waits while more of its peer's lane 0 is unacknowledged than fills the path (set_overlap): the lanes are connections of
//   their own, and the network would share itself between them.
// - In lane 0 the ticket that would be complete first goes first (fewest bytes left in that lane), in lane 1 the oldest one.
// - While the oldest unit of a peer's lane 1 is over its age limit, tickets that have not begun in that peer's lane 0 wait, and do
//   not count as waiting. Those that have begun go on, so lane 0 runs dry, lane 1 gets its turn, and the new tickets theirs.
// - A window a peer and lane bounds what is not acknowledged. Lanes have windows of their own, so lane 1 cannot take lane 0's. A
//   unit counts as a whole from its first chunk on: so what is lost can always be sent again within the window, and a receiver
//   that lands units in memory as large as the window does not run out.
//
// What the windows should be is decided elsewhere (residual_window.h).

#include <cstdint>
#include <limits>
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
  std::uint64_t remaining_bytes = 0;  ///< Of the ticket in this lane, as far as known: orders lane 0.
  bool begun = true;                  ///< False: nothing of the ticket was ever sent in this lane. Lane 0 only.
  std::int64_t oldest_us = kNoAge;    ///< When the oldest unacknowledged unit was there to be sent. Lane 1 only.

  static constexpr std::int64_t kNoAge = std::numeric_limits<std::int64_t>::max();
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
  /// `chunk_bytes`: most bytes of a message, where set_chunk() says nothing else. `residual_age_us`: the age limit of lane 1.
  explicit PushScheduler(std::uint32_t chunk_bytes, std::int64_t residual_age_us = kResidualAgeUs)
      : chunk_bytes_(chunk_bytes), residual_age_us_(residual_age_us) {}

  void set_window(PushPeer peer, int lane, std::uint64_t bytes);  ///< 0 until the first call: nothing may be sent.
  void set_chunk(PushPeer peer, int lane, std::uint32_t bytes);   ///< Never more than the constructor's.
  void set_overlap(PushPeer peer, std::uint64_t bytes);           ///< Any number until the first call.
  void remove_peer(PushPeer peer);                                ///< Its loads are removed before.
  void set_load(PushTicket ticket, int lane, const PushLoad& load);
  void remove(PushTicket ticket);

  /// There is no memory for new units of this peer and lane: they do not count as waiting until release_held().
  void hold_new_units(PushPeer peer, int lane);
  bool release_held();  ///< False: none was held.

  /// What to send now. The caller does it and updates the load. Tickets that wait for an old Residual are let go by
  /// acknowledgements, not by time: there is nothing to call it again for otherwise.
  std::optional<PushDecision> next(std::int64_t now_us) const;

  static constexpr std::int64_t kResidualAgeUs = 10'000'000;

 private:
  using LoadKey = std::pair<int, PushTicket>;  ///< Lane first: lane 0 comes before lane 1.
  struct Lane {
    std::uint64_t window = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t begun = 0;
    std::uint32_t chunk = std::numeric_limits<std::uint32_t>::max();
    bool held = false;
  };
  struct Peer {
    Lane lanes[kPushLanes];
    std::uint64_t overlap = std::numeric_limits<std::uint64_t>::max();
  };

  Lane& lane_of(const PushLoad& load, int lane) { return peers_[load.peer].lanes[lane]; }
  static bool waits(const PushLoad& load, const Lane& lane);
  static bool goes_before(const LoadKey& a, const PushLoad& load_a, const LoadKey& b, const PushLoad& load_b);
  std::uint32_t allowance(const PushLoad& load, const Lane& lane) const;
  std::set<PushPeer> peers_over_age(std::int64_t now_us) const;

  std::uint32_t chunk_bytes_;
  std::int64_t residual_age_us_;
  std::map<PushPeer, Peer> peers_;
  std::map<LoadKey, PushLoad> loads_;
};

}  // namespace lynx::scheduler
