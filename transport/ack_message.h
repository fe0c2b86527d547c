#pragma once

// What a receiver tells a sender about one ticket's lane: the payload of a MessageKind::kAck message (docs/wire_format.md). The
// header before it carries ticket, secret, epoch and lane; its sequence counts the acknowledgements of a session, so that an old
// grant does not undo a newer one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "transport/transfer_sender.h"
#include "transport/wire_header.h"

namespace lynx::transport {

/// Most entries of each list in one message.
inline constexpr std::size_t kAckListMax = 64;
inline constexpr std::size_t kAckFixedBytes = 16;
inline constexpr std::size_t kAckBytesMax = kAckFixedBytes + kAckListMax * (8 + 4 + 8);

/// What became of the ticket at the receiver.
enum class TicketPhase : std::uint8_t {
  kLive = 0,
  kComplete = 1,  ///< Every expected unit is placed: whatever is unacknowledged counts as acknowledged.
  kRetired = 2,   ///< Given up: nothing more is wanted.
};

struct AckMessage {
  TicketPhase phase = TicketPhase::kLive;
  std::uint32_t credit_bytes[kLanes] = {};  ///< Most bytes the sender may have unacknowledged in this session, per lane.
  std::vector<SequenceRange> acked;         ///< Placed and checked, or there already.
  std::vector<std::uint32_t> rejected;      ///< Damaged, without landing memory, or before its Anchor.
  std::vector<UnitKey> missing;             ///< Asked for again; of either lane. The plane is a guess where nothing came yet.
};

/// Each list has at most kAckListMax entries.
std::vector<std::byte> encode_ack(const AckMessage& ack);

/// DATA_LOSS naming what is wrong: size, an unknown phase, part or plane, a list too long, a range that ends before it starts.
Result<AckMessage> decode_ack(std::span<const std::byte> bytes);

}  // namespace lynx::transport
