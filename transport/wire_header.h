#pragma once

// The header of every data-plane message (docs/wire_format.md): 96 bytes, little-endian, sealed by a CRC of its own. Bytes from the
// network are untrusted: decode() checks form, and the receiver checks every field against a live ticket before a payload byte is
// placed.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace lynx::transport {

inline constexpr std::uint32_t kWireMagic = 0x584e594c;  ///< "LYNX"
inline constexpr std::uint8_t kWireVersion = 1;
inline constexpr std::size_t kWireHeaderBytes = 96;

/// One UCX worker each. Anchors and whole caches go high; Residuals wait for them.
enum class Lane : std::uint8_t { kHigh = 0, kBackground = 1 };
inline constexpr int kLanes = 2;

enum class MessageKind : std::uint8_t { kData = 1, kAck = 2 };
enum class Part : std::uint8_t { kK = 0, kV = 1 };

/// What a unit's bytes are (docs/plane_format.md).
enum class Plane : std::uint8_t {
  kBf16 = 0,
  kLossless = 1,
  kAnchor = 2,
  kInt8 = 3,  ///< Anchor and int8 Residual in one unit.
  // What an Anchor lacks: a unit of its own, after the Anchor of the same values.
  kInt8Residual = 4,
  kExactResidual = 5,
  kBf16Residual = 6,  ///< The values themselves, where an exact Residual does not pay.
};
inline constexpr Plane kLastPlane = Plane::kBf16Residual;  ///< Numbers above it mean nothing, wherever one comes over the wire.
constexpr bool is_residual(Plane plane) {
  return plane == Plane::kInt8Residual || plane == Plane::kExactResidual || plane == Plane::kBf16Residual;
}

/// 128 random bits that only the two nodes of a ticket know.
using TicketSecret = std::array<std::uint8_t, 16>;
/// Looks at all bytes whatever they are: the time it takes tells nothing about how many were right.
bool equal_secrets(const TicketSecret& a, const TicketSecret& b);

/// A ticket as the data plane knows it. `boot` is drawn by the receiver when it starts: a chunk meant for an earlier life is
/// foreign.
struct TicketId {
  std::uint64_t boot = 0;
  std::uint64_t request = 0;
  friend auto operator<=>(const TicketId&, const TicketId&) = default;
};

/// One unit: all codes of one plane of one block, K or V of one layer. Placed as a whole, sent in chunks.
struct UnitKey {
  std::uint16_t layer = 0;
  Part part = Part::kK;
  Plane plane = Plane::kBf16;
  std::uint32_t block = 0;  ///< Index in the prompt: tokens 64·block …
  friend auto operator<=>(const UnitKey&, const UnitKey&) = default;
};

/// Which values a unit brings, whatever the plane that they come in. What comes first, or alone, is one place, a Residual another.
struct UnitPlace {
  std::uint16_t layer = 0;
  Part part = Part::kK;
  bool residual = false;
  std::uint32_t block = 0;
  friend auto operator<=>(const UnitPlace&, const UnitPlace&) = default;
};
constexpr UnitPlace place_of(const UnitKey& unit) {
  return {unit.layer, unit.part, is_residual(unit.plane), unit.block};
}

struct WireHeader {
  MessageKind kind = MessageKind::kData;
  Lane lane = Lane::kHigh;
  TicketId ticket;
  TicketSecret secret{};
  std::uint32_t epoch = 0;     ///< Attempt at this ticket: counted up when a transfer starts anew.
  std::uint32_t sequence = 0;  ///< Of this chunk within (ticket, epoch, lane), from 0, without gaps; of this acknowledgement.
  UnitKey unit;
  std::uint32_t unit_bytes = 0;  ///< Of the whole unit: coded planes vary in size.
  std::uint32_t offset = 0;      ///< Of this chunk in the unit.
  std::uint32_t length = 0;      ///< Payload bytes of this message.
  std::uint32_t payload_crc = 0;
};

using WireBytes = std::array<std::byte, kWireHeaderBytes>;

WireBytes encode_header(const WireHeader& header);

/// DATA_LOSS naming what is wrong: size, magic, version, CRC, an unknown kind, lane, part or plane, or a range outside the unit.
Result<WireHeader> decode_header(std::span<const std::byte> bytes);

}  // namespace lynx::transport
