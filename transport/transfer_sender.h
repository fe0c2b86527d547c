#pragma once

// One ticket's transfer as its sender sees it: which units there are, which chunks are in flight, what to send again. Pure: no
// clock, no I/O, no bytes. The owner sends what next_chunk() says and reports acknowledgements and time.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "transport/wire_header.h"

namespace lynx::transport {

/// A contiguous run of chunk sequence numbers: first … last.
struct SequenceRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const SequenceRange&, const SequenceRange&) = default;
};

/// A piece of a unit to be sent now.
struct Chunk {
  UnitKey unit;
  std::uint32_t unit_bytes = 0;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t sequence = 0;
  bool resent = false;
};

/// Not thread-safe. One object per (ticket, lane); a new epoch makes it forget what was in flight and send all that is not
/// acknowledged.
class TransferSender {
 public:
  /// The unit's bytes are ready; they must stay until unit_done. Units go in the order they were added.
  void add_unit(const UnitKey& unit, std::uint32_t bytes);
  /// No more units will come.
  void close() { closed_ = true; }

  /// The next piece, at most `max_bytes` long; what was lost goes first. nullopt when there is nothing to send now.
  std::optional<Chunk> next_chunk(std::uint32_t max_bytes, std::int64_t now_us);

  /// Chunks the receiver has placed and checked. Unknown and repeated numbers are ignored. Units whose every byte is acknowledged
  /// are appended to `done`, in no particular order: their memory may be reused.
  void on_acked(SequenceRange range, std::int64_t now_us, std::vector<UnitKey>* done);
  /// The receiver got a damaged chunk: it is sent again.
  void on_rejected(std::uint32_t sequence);
  /// The receiver misses this whole unit, or parts of it: it is sent again, unless it is on its way.
  void on_missing(const UnitKey& unit);
  /// The link was lost and is there again, or the watchdog fired: everything unacknowledged is sent again with fresh sequence
  /// numbers.
  void restart();

  bool has_pending() const { return !lost_.empty() || next_unit_ < order_.size(); }
  bool complete() const { return closed_ && units_left_ == 0; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  /// Bytes that are not yet acknowledged, sent or not: orders tickets ("complete first").
  std::uint64_t remaining_bytes() const { return remaining_bytes_; }
  /// Time of the last acknowledgement, or of the first chunk sent since nothing was in flight; meaningful while in_flight_bytes() >
  /// 0.
  std::int64_t last_progress_us() const { return last_progress_us_; }

 private:
  struct Unit {
    UnitKey key;
    std::uint32_t bytes = 0;
    std::uint32_t sent = 0;   ///< Offset of the first byte never handed out.
    std::uint32_t acked = 0;  ///< Bytes acknowledged; pieces never overlap, so a sum is enough.
  };
  struct Piece {
    std::size_t unit = 0;  ///< Index into order_.
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };

  Chunk emit(const Piece& piece, bool resent, std::int64_t now_us);

  std::vector<Unit> order_;
  std::map<UnitKey, std::size_t> index_;
  std::size_t next_unit_ = 0;
  std::size_t units_left_ = 0;
  std::map<std::uint32_t, Piece> in_flight_;  ///< By sequence number.
  std::deque<Piece> lost_;                    ///< To be sent again.
  std::uint32_t next_sequence_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t remaining_bytes_ = 0;
  std::int64_t last_progress_us_ = 0;
  bool closed_ = false;
};

}  // namespace lynx::transport
