#include "transport/ack_message.h"

#include <string>
#include <utility>

namespace lynx::transport {
namespace {

template <class T>
void put(std::vector<std::byte>& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// Reads on; the caller has checked that the bytes are there.
template <class T>
T take(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  bytes = bytes.subspan(sizeof(T));
  return static_cast<T>(value);
}

Status damaged(std::string what) {
  return {Code::kDataLoss, "acknowledgement: " + std::move(what)};
}

Result<UnitKey> take_unit(std::span<const std::byte>& bytes) {
  UnitKey unit;
  unit.layer = take<std::uint16_t>(bytes);
  auto part = take<std::uint8_t>(bytes);
  auto plane = take<std::uint8_t>(bytes);
  unit.block = take<std::uint32_t>(bytes);
  if (part > static_cast<std::uint8_t>(Part::kV)) return damaged("unknown part " + std::to_string(part));
  if (plane > static_cast<std::uint8_t>(kLastPlane)) return damaged("unknown plane " + std::to_string(plane));
  unit.part = static_cast<Part>(part);
  unit.plane = static_cast<Plane>(plane);
  return unit;
}

}  // namespace

std::vector<std::byte> encode_ack(const AckMessage& ack) {
  std::vector<std::byte> bytes;
  bytes.reserve(kAckFixedBytes + ack.acked.size() * 8 + ack.rejected.size() * 4 + ack.missing.size() * 8);
  put(bytes, static_cast<std::uint8_t>(ack.phase));
  put(bytes, std::uint8_t{0});
  put(bytes, static_cast<std::uint16_t>(ack.acked.size()));
  put(bytes, static_cast<std::uint16_t>(ack.rejected.size()));
  put(bytes, static_cast<std::uint16_t>(ack.missing.size()));
  for (std::uint32_t credit : ack.credit_bytes) put(bytes, credit);
  for (SequenceRange range : ack.acked) {
    put(bytes, range.first);
    put(bytes, range.last);
  }
  for (std::uint32_t sequence : ack.rejected) put(bytes, sequence);
  for (const UnitKey& unit : ack.missing) {
    put(bytes, unit.layer);
    put(bytes, static_cast<std::uint8_t>(unit.part));
    put(bytes, static_cast<std::uint8_t>(unit.plane));
    put(bytes, unit.block);
  }
  return bytes;
}

Result<AckMessage> decode_ack(std::span<const std::byte> bytes) {
  if (bytes.size() < kAckFixedBytes) return damaged(std::to_string(bytes.size()) + " bytes");
  const std::size_t size = bytes.size();
  AckMessage ack;
  auto phase = take<std::uint8_t>(bytes);
  if (phase > static_cast<std::uint8_t>(TicketPhase::kRetired)) return damaged("unknown phase " + std::to_string(phase));
  ack.phase = static_cast<TicketPhase>(phase);
  if (take<std::uint8_t>(bytes) != 0) return damaged("reserved byte is not zero");
  std::size_t acked = take<std::uint16_t>(bytes);
  std::size_t rejected = take<std::uint16_t>(bytes);
  std::size_t missing = take<std::uint16_t>(bytes);
  if (acked > kAckListMax || rejected > kAckListMax || missing > kAckListMax) return damaged("a list is too long");
  if (size != kAckFixedBytes + acked * 8 + rejected * 4 + missing * 8) return damaged(std::to_string(size) + " bytes");
  for (std::uint32_t& credit : ack.credit_bytes) credit = take<std::uint32_t>(bytes);
  for (std::size_t i = 0; i < acked; ++i) {
    auto first = take<std::uint32_t>(bytes);
    auto last = take<std::uint32_t>(bytes);
    if (last < first) return damaged("range " + std::to_string(first) + " … " + std::to_string(last));
    ack.acked.push_back({first, last});
  }
  for (std::size_t i = 0; i < rejected; ++i) ack.rejected.push_back(take<std::uint32_t>(bytes));
  for (std::size_t i = 0; i < missing; ++i) {
    LYNX_TRY(UnitKey unit, take_unit(bytes));
    ack.missing.push_back(unit);
  }
  return ack;
}

}  // namespace lynx::transport
