#pragma once

// One ticket's transfer as its receiver sees it: decides for every chunk header whether its payload may be placed, and knows when
// all is there. Pure: no clock, no I/O, no bytes. Headers are untrusted; nothing is placed that the ticket does not expect.

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/transfer_sender.h"
#include "transport/wire_header.h"

namespace lynx::transport {

/// What a ticket will bring.
struct TransferExpectation {
  TicketId ticket;
  TicketSecret secret{};
  int layers = 0;
  int blocks = 0;
  std::vector<Plane> planes;         ///< Allowed alternatives: a unit comes in exactly one of them.
  std::uint32_t unit_bytes_max = 0;  ///< Landing memory of one unit.
  /// Units that come in two steps: their Residual follows on the background lane. [layer][block][part], K first; empty: none.
  std::vector<bool> residuals{};
  std::vector<Plane> residual_planes{};  ///< Allowed alternatives, all of them Residuals.
};

/// Payload bytes of a ticket, each counted once.
struct TransferBytes {
  std::uint64_t units = 0;      ///< What comes first, or alone.
  std::uint64_t residuals = 0;  ///< What comes behind.
  std::uint64_t all() const { return units + residuals; }
};

/// What to do with a chunk. Everything but kPlace leaves memory untouched; kPlace and kDuplicate are acknowledged.
enum class Verdict {
  kPlace,       ///< Fits: check the payload's CRC, copy it to (unit, offset), then call placed().
  kDuplicate,   ///< Its bytes are there already.
  kStaleEpoch,  ///< Of an earlier epoch of this ticket: dropped without a word.
  kForeign,     ///< Wrong ticket, boot or secret: dropped, counted.
  kMalformed,   ///< A unit, lane, size or range that the ticket does not allow: dropped, counted.
  kEarly,       ///< A Residual whose Anchor is not complete: to be sent again later.
};
std::string_view verdict_name(Verdict verdict);

/// Not thread-safe.
class TransferReceiver {
 public:
  explicit TransferReceiver(TransferExpectation expectation);

  /// Looks at a header. Sizes of a unit are fixed by its first chunk. The sender decides when a new epoch begins: a header that
  /// proves itself and fits the ticket takes the receiver there, only ever upwards.
  Verdict judge(const WireHeader& header);
  /// The payload of a kPlace chunk passed its CRC and lies in place. True when its unit is complete now.
  bool placed(const WireHeader& header);

  std::uint32_t epoch() const { return epoch_; }

  bool complete() const { return complete_[0] == units_per_step_ && complete_[1] == residuals_expected_; }
  /// All that comes first is there, and Residuals are missing.
  bool awaits_residuals() const { return complete_[0] == units_per_step_ && complete_[1] < residuals_expected_; }
  /// Units not yet complete, at most `limit` of them, in order: what to ask for again. The next call goes on behind the last one,
  /// round and round, so that units which were not sent yet hide nothing.
  std::vector<UnitKey> missing(std::size_t limit);
  const TransferBytes& bytes_placed() const { return bytes_placed_; }

  /// Acknowledgements not yet taken, as ranges per lane, at most `limit` of them; they are removed. Those of a sender that does not
  /// let them be sent are kept up to a bound.
  std::vector<SequenceRange> take_acks(Lane lane, std::size_t limit);
  bool has_acks(Lane lane) const { return !acks_[static_cast<std::size_t>(lane)].empty(); }

 private:
  struct UnitState {
    Plane plane = Plane::kBf16;
    std::uint32_t bytes = 0;
    std::uint32_t placed = 0;
    std::map<std::uint32_t, std::uint32_t> ranges;  ///< Placed [start, end), disjoint and merged.
  };
  static bool is_complete(const UnitState& unit) { return unit.bytes != 0 && unit.placed == unit.bytes; }

  bool expects(std::size_t index) const;
  std::optional<std::size_t> index_of(const UnitKey& unit) const;
  UnitKey key_of(std::size_t index) const;
  void begin_epoch(std::uint32_t epoch);
  void acknowledge(Lane lane, std::uint32_t sequence);

  TransferExpectation expectation_;
  std::uint32_t epoch_ = 0;
  std::vector<UnitState> units_;  ///< [layer][block][part], then their Residuals in the same order.
  std::size_t units_per_step_ = 0;
  std::size_t residuals_expected_ = 0;
  std::size_t complete_[2] = {};  ///< Units, Residuals.
  std::size_t missing_from_ = 0;  ///< Where the next missing() begins.
  TransferBytes bytes_placed_;
  std::vector<SequenceRange> acks_[kLanes];
};

}  // namespace lynx::transport
