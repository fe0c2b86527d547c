#include "transport/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lynx::transport {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Reflected 0x1edc6f41.

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

std::uint32_t update_by_table(std::uint32_t crc, const unsigned char* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kTable[(crc ^ data[i]) & 0xff];
  return crc;
}

#if defined(__x86_64__)
// Three independent chains hide the instruction's latency of three cycles; they are joined by shifting a CRC over the zero bytes of
// a chain's length, which is a linear map kept as four tables.
constexpr std::size_t kChain = 1024;

constexpr std::uint32_t shift_over_chain(std::uint32_t crc) {
  for (std::size_t i = 0; i < kChain; ++i) crc = (crc >> 8) ^ kTable[crc & 0xff];
  return crc;
}

struct ShiftTables {
  std::uint32_t of[4][256];
};

const ShiftTables& shift_tables() {
  static const ShiftTables tables = [] {
    ShiftTables made{};
    for (int place = 0; place < 4; ++place) {
      for (std::uint32_t byte = 0; byte < 256; ++byte) made.of[place][byte] = shift_over_chain(byte << (8 * place));
    }
    return made;
  }();
  return tables;
}

std::uint32_t shift(const ShiftTables& tables, std::uint32_t crc) {
  return tables.of[0][crc & 0xff] ^ tables.of[1][(crc >> 8) & 0xff] ^ tables.of[2][(crc >> 16) & 0xff] ^ tables.of[3][crc >> 24];
}

std::uint64_t load_u64(const unsigned char* data) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, sizeof value);
  return value;
}

__attribute__((target("sse4.2"))) std::uint32_t update_by_instruction(std::uint32_t crc, const unsigned char* data,
                                                                      std::size_t size) {
  const ShiftTables& tables = shift_tables();
  for (; size >= 3 * kChain; data += 3 * kChain, size -= 3 * kChain) {
    std::uint64_t a = crc;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t i = 0; i < kChain; i += 8) {
      a = _mm_crc32_u64(a, load_u64(data + i));
      b = _mm_crc32_u64(b, load_u64(data + kChain + i));
      c = _mm_crc32_u64(c, load_u64(data + 2 * kChain + i));
    }
    crc =
        shift(tables, shift(tables, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b)) ^ static_cast<std::uint32_t>(c);
  }
  for (; size >= 8; data += 8, size -= 8) crc = static_cast<std::uint32_t>(_mm_crc32_u64(crc, load_u64(data)));
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, *data);
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~update_by_instruction(~crc, data, bytes.size());
#endif
  return ~update_by_table(~crc, data, bytes.size());
}

}  // namespace lynx::transport
