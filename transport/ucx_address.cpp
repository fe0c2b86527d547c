#include "transport/ucx_address.h"

#include <fmt/format.h>

#include "transport/crc32c.h"

namespace lynx::transport {
namespace {

constexpr std::string_view kMagic = "LUCX";
constexpr unsigned char kFormat = 1;
constexpr std::size_t kHeadBytes = 13;
constexpr std::size_t kCrcBytes = 4;

void append_u32(std::string& text, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) text.push_back(static_cast<char>(value >> shift & 0xff));
}

std::uint32_t read_u32(std::string_view text) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
  return value;
}

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

Status refused(Lane lane, std::string_view why) {
  return invalid_argument(fmt::format("address of lane {}: {}", static_cast<int>(lane), why));
}

}  // namespace

std::string UcxVersion::to_string() const {
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string seal_address(Lane lane, const UcxVersion& version, std::span<const std::byte> address) {
  std::string sealed(kMagic);
  for (unsigned value : {unsigned{kFormat}, static_cast<unsigned>(lane), version.major, version.minor, version.release}) {
    sealed.push_back(static_cast<char>(value));
  }
  append_u32(sealed, static_cast<std::uint32_t>(address.size()));
  sealed.append(reinterpret_cast<const char*>(address.data()), address.size());
  append_u32(sealed, crc_of(sealed));
  return sealed;
}

Result<std::string_view> unseal_address(Lane lane, const UcxVersion& version, std::string_view sealed) {
  if (sealed.size() <= kHeadBytes + kCrcBytes || sealed.size() > kHeadBytes + kUcxAddressBytesMax + kCrcBytes) {
    return refused(lane, fmt::format("{} bytes", sealed.size()));
  }
  if (!sealed.starts_with(kMagic)) return refused(lane, "not sealed by a Lynx node");
  const std::size_t body = sealed.size() - kCrcBytes;
  if (read_u32(sealed.substr(body)) != crc_of(sealed.substr(0, body))) return refused(lane, "damaged: its CRC does not match");
  const auto at = [sealed](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(sealed[i])); };
  if (at(4) != kFormat) return refused(lane, fmt::format("format {}, this node has {}", at(4), kFormat));
  const UcxVersion theirs{at(6), at(7), at(8)};
  if (theirs != version) {
    return refused(lane, fmt::format("made by UCX {}, this node has {}", theirs.to_string(), version.to_string()));
  }
  if (at(5) != static_cast<unsigned>(lane)) return refused(lane, fmt::format("it is lane {}'s", at(5)));
  if (read_u32(sealed.substr(9)) != body - kHeadBytes) return refused(lane, "its length does not match");
  return sealed.substr(kHeadBytes, body - kHeadBytes);
}

}  // namespace lynx::transport
