#pragma once

// One ticket's transfer as its sender sees it: which units there are, which chunks are in flight, what to send again. Pure: no
// clock, no I/O, no bytes. The owner sends what next_chunk() says and reports acknowledgements and time.
//
// How long a unit is turns out when it is coded, which the owner does just before its first chunk goes (unit_to_prepare, prepared).
// The coded bytes stay until all of them are acknowledged, so that what is lost needs no second coding.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "transport/wire_header.h"

namespace lynx::transport {

/// A contiguous run of chunk sequence numbers: first … last.
struct SequenceRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const SequenceRange&, const SequenceRange&) = default;
};

/// A unit as it was coded.
struct PreparedUnit {
  Plane plane = Plane::kBf16;  ///< Really used: raw where coding does not pay.
  std::uint32_t bytes = 0;     ///< ≥ 1.
  std::uint32_t memory = 0;    ///< The owner's name for where the bytes lie.
};

/// A piece of a unit to be sent now.
struct Chunk {
  UnitKey unit;  ///< With the plane that was really used.
  std::uint32_t unit_bytes = 0;
  std::uint32_t memory = 0;  ///< As given to prepared().
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t sequence = 0;
  bool resent = false;
};

/// What acknowledgements said, added up until the owner takes it.
struct AckedBytes {
  std::uint64_t bytes = 0;
  std::int64_t newest_sent_us = 0;  ///< When the latest of the chunks left.
};

/// Not thread-safe. One object per (ticket, lane); a new epoch makes it forget what was in flight and send all that is not
/// acknowledged.
class TransferSender {
 public:
  /// The unit can be coded from now on. Units go in the order they were added; a second one for the same place is ignored.
  void add_unit(const UnitKey& unit, std::int64_t now_us = 0);
  /// No more units will come.
  void close() { closed_ = true; }

  /// The unit to code before anything more can be sent: nothing coded is waiting.
  std::optional<UnitKey> unit_to_prepare() const;
  /// The first chunk of the unit of this place was handed out.
  bool has_sent(const UnitPlace& unit) const;
  /// unit_to_prepare() is coded; its memory stays until it is named by on_acked() or abandon().
  void prepared(const PreparedUnit& coded);

  /// Bytes that the next piece has if it is not cut; 0 when there is nothing coded to send.
  std::uint32_t ready_bytes() const;
  /// The next piece, at most `max_bytes` long; what was lost goes first. nullopt when there is nothing coded to send.
  std::optional<Chunk> next_chunk(std::uint32_t max_bytes, std::int64_t now_us);

  /// Chunks the receiver has placed and checked. Unknown and repeated numbers are ignored. The memory of units whose every byte is
  /// acknowledged is appended to `done`, in no particular order.
  void on_acked(SequenceRange range, std::int64_t now_us, std::vector<std::uint32_t>* done);
  /// The receiver could not take this chunk: it is sent again. False: it is not in flight.
  bool on_rejected(std::uint32_t sequence);
  /// The receiver misses this unit (its plane is a guess): what was sent of it before `sent_before_us` and is not acknowledged is
  /// sent again; the rest counts as on its way.
  void on_missing(const UnitKey& unit, std::int64_t sent_before_us);
  /// The watchdog fired, a new epoch begins: everything unacknowledged is sent again, numbered from 0.
  void restart();
  /// Nothing more is to be sent; all units known so far count as acknowledged (the receiver says that it has everything) or as
  /// given up. Returns the memory that they held.
  std::vector<std::uint32_t> abandon();

  bool complete() const { return closed_ && units_left_ == 0; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  /// Unacknowledged bytes of coded units, sent or not.
  std::uint64_t begun_bytes() const { return begun_bytes_; }
  std::uint64_t acked_bytes() const { return acked_bytes_; }
  /// Since the last call.
  AckedBytes take_acked() { return std::exchange(acked_, {}); }
  /// A unit was coded.
  bool begun() const { return coded_ > 0; }
  /// When the oldest unit that is not acknowledged to its end was added; nullopt: there is none.
  std::optional<std::int64_t> oldest_us() const;
  std::size_t units_to_code() const { return order_.size() - coded_; }

  /// Time of the last acknowledgement, or of the first chunk sent since nothing was in flight; meaningful while in_flight_bytes() >
  /// 0.
  std::int64_t last_progress_us() const { return last_progress_us_; }

 private:
  struct Unit {
    UnitKey key;
    std::uint32_t bytes = 0;  ///< 0 until it is coded.
    std::uint32_t memory = 0;
    std::uint32_t sent = 0;   ///< Offset of the first byte never handed out.
    std::uint32_t acked = 0;  ///< Bytes acknowledged; pieces never overlap, so a sum is enough.
    std::int64_t added_us = 0;
  };
  struct Piece {
    std::size_t unit = 0;  ///< Index into order_.
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::int64_t sent_us = 0;
  };
  using InFlight = std::map<std::uint32_t, Piece>;

  Chunk emit(Piece piece, bool resent, std::int64_t now_us);
  InFlight::iterator lose(InFlight::iterator it);

  std::vector<Unit> order_;
  std::map<UnitPlace, std::size_t> index_;
  std::size_t next_unit_ = 0;    ///< The first one not handed out to its end.
  std::size_t oldest_unit_ = 0;  ///< The first one not acknowledged to its end.
  std::size_t coded_ = 0;
  std::size_t units_left_ = 0;
  InFlight in_flight_;      ///< By sequence number.
  std::deque<Piece> lost_;  ///< To be sent again.
  std::uint32_t next_sequence_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t begun_bytes_ = 0;
  std::uint64_t acked_bytes_ = 0;
  AckedBytes acked_;
  std::int64_t last_progress_us_ = 0;
  bool closed_ = false;
};

}  // namespace lynx::transport
