#pragma once

// How much of a peer's lane 1 may be unacknowledged: enough to keep the link busy, and no more, since whatever queues in front of
// an Anchor that comes next delays it. Pure: times are passed in, of any monotonic clock. docs/adr/0009-residual-window.md says
// what was measured.
//
// The rules
// - rate: the most bytes (of both lanes) acknowledged in a bucket of 20 ms (RTTmin, if that is longer: acknowledgements of a window
//   may come in a clump), over 2 s with traffic.
// - RTTmin: the least delay from sending a chunk to the receiver's acknowledgement of it, over 10 s. Then, or when a
//   window as small as it gets does not help, the window is small for a moment and RTTmin measured anew: the queue which the window
//   itself keeps up is not to be taken for the path.
// - W follows the delay: once a round its median is compared with the target, RTTmin + D, and W is multiplied by what brings it
//   there; half of the way when it shrinks, and at least twofold until a queue is seen. W stays within 2 · rate · target, the floor
//   and the cap.
// - Chunks that shared the link with Anchors tell nothing: while those run, all but the rate is frozen.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace lynx::scheduler {

struct ResidualWindowOptions {
  std::uint64_t floor_bytes = std::uint64_t{64} << 10;  ///< Two pieces: with one the link is idle while it is acknowledged.
  std::uint64_t cap_bytes = std::uint64_t{32} << 20;
  std::uint64_t first_bytes = std::uint64_t{64} << 10;  ///< Until something was measured.
  std::int64_t queue_us = 1'750;                        ///< D where the path has no delay …
  std::int64_t queue_us_max = 4'000;                    ///< … and at most: an eighth of RTTmin is added.
  std::uint32_t chunk_bytes_min = 16 << 10;
  std::uint32_t chunk_bytes_max = 256 << 10;
};

/// One for each peer. Not thread-safe.
class ResidualWindow {
 public:
  explicit ResidualWindow(const ResidualWindowOptions& options = {}) : options_(options), window_(first()) {}

  /// A chunk of lane 0 leaves.
  void on_anchor_sent(std::int64_t now_us) { last_anchor_us_ = now_us; }
  /// An acknowledgement for `bytes` > 0 of one lane; the newest of the chunks it names was sent at `newest_sent_us`.
  void on_acked(int lane, std::uint64_t bytes, std::int64_t newest_sent_us, std::int64_t now_us);

  /// Most unacknowledged bytes of lane 1.
  std::uint64_t window_bytes() const;
  /// Lane 1 may go on while at most so many bytes of lane 0 are unacknowledged: the rest of a burst fills the path until the first
  /// Residual gets there.
  std::uint64_t overlap_bytes() const;
  /// Most bytes of a message: a power of two, at most a quarter of the window where the bounds allow it.
  std::uint32_t chunk_bytes() const;

  // What it knows, for metrics and tests.
  std::uint64_t rate_bytes_per_s() const { return rate_; }  ///< 0: not measured yet.
  std::int64_t rtt_min_us() const { return rtt_min_us_; }   ///< 0: not measured yet.
  std::int64_t target_us() const;                           ///< RTTmin + D.

 private:
  struct Bucket {
    std::int64_t start_us;
    std::int64_t us;  ///< How long it is.
    std::uint64_t bytes;
  };

  std::uint64_t first() const;
  void count(std::uint64_t bytes, std::int64_t now_us);
  void note_delay(std::int64_t delay_us, std::int64_t now_us);
  void begin_probe(std::int64_t now_us);
  void end_round(std::int64_t now_us);
  std::uint64_t bounded(double bytes) const;

  ResidualWindowOptions options_;
  std::uint64_t window_;
  bool starting_ = true;        ///< No queue was seen yet.
  std::deque<Bucket> buckets_;  ///< Oldest first; the last one is being filled.
  std::uint64_t rate_ = 0;
  std::int64_t last_ack_us_ = 0;
  std::optional<std::int64_t> last_anchor_us_;  ///< Sent or acknowledged.
  std::int64_t rtt_min_us_ = 0;
  std::int64_t rtt_min_at_us_ = 0;
  std::optional<std::int64_t> probe_since_us_;  ///< The window is small, to see the path's own delay.
  std::int64_t probe_least_us_ = 0;
  std::int64_t round_start_us_ = 0;
  std::vector<std::int64_t> delays_us_;  ///< Of this round.
};

}  // namespace lynx::scheduler
