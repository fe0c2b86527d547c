#include "transport/wire_header.h"

#include <cstring>
#include <string>
#include <string_view>

#include "common/secrets.h"
#include "transport/crc32c.h"

namespace lynx::transport {
namespace {

// Byte positions; docs/wire_format.md shows the same table.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 5;
constexpr std::size_t kLaneAt = 6;
constexpr std::size_t kReservedAt = 7;
constexpr std::size_t kBootAt = 8;
constexpr std::size_t kRequestAt = 16;
constexpr std::size_t kSecretAt = 24;
constexpr std::size_t kEpochAt = 40;
constexpr std::size_t kSequenceAt = 44;
constexpr std::size_t kLayerAt = 48;
constexpr std::size_t kPartAt = 50;
constexpr std::size_t kPlaneAt = 51;
constexpr std::size_t kBlockAt = 52;
constexpr std::size_t kUnitBytesAt = 56;
constexpr std::size_t kOffsetAt = 60;
constexpr std::size_t kLengthAt = 64;
constexpr std::size_t kPayloadCrcAt = 68;
constexpr std::size_t kPaddingAt = 72;  // Zero, up to the CRC.
constexpr std::size_t kHeaderCrcAt = 92;
static_assert(kHeaderCrcAt + sizeof(std::uint32_t) == kWireHeaderBytes);

template <class T>
void put(WireBytes& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

Status damaged(std::string what) {
  return {Code::kDataLoss, "wire header: " + std::move(what)};
}

Status check_form(std::span<const std::byte> bytes) {
  if (bytes.size() != kWireHeaderBytes) return damaged(std::to_string(bytes.size()) + " bytes");
  if (get<std::uint32_t>(bytes, kMagicAt) != kWireMagic) return damaged("wrong magic");
  auto version = get<std::uint8_t>(bytes, kVersionAt);
  if (version != kWireVersion)
    return damaged("version " + std::to_string(version) + ", this node speaks " + std::to_string(kWireVersion));
  if (get<std::uint32_t>(bytes, kHeaderCrcAt) != crc32c(bytes.first(kHeaderCrcAt))) return damaged("wrong CRC");
  if (get<std::uint8_t>(bytes, kReservedAt) != 0) return damaged("reserved byte is not zero");
  for (std::size_t at = kPaddingAt; at < kHeaderCrcAt; ++at) {
    if (bytes[at] != std::byte{0}) return damaged("padding is not zero");
  }
  return {};
}

Status check_values(std::uint8_t kind, std::uint8_t lane, std::uint8_t part, std::uint8_t plane) {
  if (kind < 1 || kind > static_cast<std::uint8_t>(MessageKind::kAck)) return damaged("unknown kind " + std::to_string(kind));
  if (lane >= kLanes) return damaged("unknown lane " + std::to_string(lane));
  if (part > static_cast<std::uint8_t>(Part::kV)) return damaged("unknown part " + std::to_string(part));
  if (plane > static_cast<std::uint8_t>(kLastPlane)) return damaged("unknown plane " + std::to_string(plane));
  return {};
}

}  // namespace

bool equal_secrets(const TicketSecret& a, const TicketSecret& b) {
  const auto text = [](const TicketSecret& secret) {
    return std::string_view(reinterpret_cast<const char*>(secret.data()), secret.size());
  };
  return lynx::equal_secrets(text(a), text(b));
}

WireBytes encode_header(const WireHeader& header) {
  WireBytes bytes{};
  put(bytes, kMagicAt, kWireMagic);
  put(bytes, kVersionAt, kWireVersion);
  put(bytes, kKindAt, static_cast<std::uint8_t>(header.kind));
  put(bytes, kLaneAt, static_cast<std::uint8_t>(header.lane));
  put(bytes, kBootAt, header.ticket.boot);
  put(bytes, kRequestAt, header.ticket.request);
  std::memcpy(bytes.data() + kSecretAt, header.secret.data(), header.secret.size());
  put(bytes, kEpochAt, header.epoch);
  put(bytes, kSequenceAt, header.sequence);
  put(bytes, kLayerAt, header.unit.layer);
  put(bytes, kPartAt, static_cast<std::uint8_t>(header.unit.part));
  put(bytes, kPlaneAt, static_cast<std::uint8_t>(header.unit.plane));
  put(bytes, kBlockAt, header.unit.block);
  put(bytes, kUnitBytesAt, header.unit_bytes);
  put(bytes, kOffsetAt, header.offset);
  put(bytes, kLengthAt, header.length);
  put(bytes, kPayloadCrcAt, header.payload_crc);
  put(bytes, kHeaderCrcAt, crc32c(std::span<const std::byte>(bytes).first(kHeaderCrcAt)));
  return bytes;
}

Result<WireHeader> decode_header(std::span<const std::byte> bytes) {
  LYNX_RETURN_IF_ERROR(check_form(bytes));
  auto kind = get<std::uint8_t>(bytes, kKindAt);
  auto lane = get<std::uint8_t>(bytes, kLaneAt);
  auto part = get<std::uint8_t>(bytes, kPartAt);
  auto plane = get<std::uint8_t>(bytes, kPlaneAt);
  LYNX_RETURN_IF_ERROR(check_values(kind, lane, part, plane));
  WireHeader header;
  header.kind = static_cast<MessageKind>(kind);
  header.lane = static_cast<Lane>(lane);
  header.ticket = {get<std::uint64_t>(bytes, kBootAt), get<std::uint64_t>(bytes, kRequestAt)};
  std::memcpy(header.secret.data(), bytes.data() + kSecretAt, header.secret.size());
  header.epoch = get<std::uint32_t>(bytes, kEpochAt);
  header.sequence = get<std::uint32_t>(bytes, kSequenceAt);
  header.unit = {get<std::uint16_t>(bytes, kLayerAt), static_cast<Part>(part), static_cast<Plane>(plane),
                 get<std::uint32_t>(bytes, kBlockAt)};
  header.unit_bytes = get<std::uint32_t>(bytes, kUnitBytesAt);
  header.offset = get<std::uint32_t>(bytes, kOffsetAt);
  header.length = get<std::uint32_t>(bytes, kLengthAt);
  header.payload_crc = get<std::uint32_t>(bytes, kPayloadCrcAt);
  if (header.kind == MessageKind::kData &&
      (header.length == 0 || std::uint64_t{header.offset} + header.length > header.unit_bytes)) {
    return damaged("bytes " + std::to_string(header.offset) + " + " + std::to_string(header.length) + " of a unit of " +
                   std::to_string(header.unit_bytes));
  }
  return header;
}

}  // namespace lynx::transport
