#include "quant/lossless.h"

#include <cassert>
#include <cstring>
#include <string>

#include "quant/exponent_code.h"
#include "quant/lossless_kernels.h"

namespace lynx::quant {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 31;  // Counts have 32 bits.

Status data_loss(const std::string& message) {
  return {Code::kDataLoss, "lossless plane: " + message};
}

/// Neighbours often have the same exponent, and a counter just written is slow to read: four sets take turns.
void count_exponents(const Bf16* values, std::size_t count, std::uint32_t (&counts)[kExponents]) {
  std::uint32_t sets[4][kExponents] = {};
  for (std::size_t i = 0; i < count; i += 4) {
    std::uint64_t four = 0;
    std::memcpy(&four, values + i, sizeof four);
    ++sets[0][(four >> 7) & 0xff];
    ++sets[1][(four >> 23) & 0xff];
    ++sets[2][(four >> 39) & 0xff];
    ++sets[3][(four >> 55) & 0xff];
  }
  for (int e = 0; e < kExponents; ++e) counts[e] = sets[0][e] + sets[1][e] + sets[2][e] + sets[3][e];
}

/// The decoder takes a word for a lane when fewer than 16 of its bits are left at the start of a round. The padding makes the bits
/// of a lane come out at a whole number of words, so many as the decoder will have taken.
std::uint8_t padding_bits(std::uint8_t lane_bits, unsigned last_round_bits) {
  const unsigned padding = (0u - lane_bits) % kWordBits;
  return static_cast<std::uint8_t>(padding + last_round_bits < kWordBits ? padding + kWordBits : padding);
}

}  // namespace

const LosslessKernels& lossless_kernels_for(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return portable_lossless_kernels();
    case Isa::kAvx2: return avx2_lossless_kernels();
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16: return avx512_lossless_kernels();
  }
  return portable_lossless_kernels();
}

std::size_t lossless_bound(std::size_t values) {
  return values * sizeof(Bf16);
}

std::size_t encode_lossless(Isa isa, std::span<const Bf16> values, std::span<std::byte> out) {
  assert(out.size() >= lossless_bound(values.size()));
  const std::size_t rounds = values.size() / kRoundValues;
  if (rounds == 0 || values.size() > kMostValues) return 0;
  const LosslessKernels& kernels = lossless_kernels_for(isa);
  const std::size_t in_rounds = rounds * kRoundValues;
  std::uint32_t counts[kExponents];
  count_exponents(values.data(), in_rounds, counts);
  const ExponentCode code = make_code(counts);

  std::uint8_t lane_bits[kLanes];
  std::uint8_t padding[kLanes];
  kernels.count_lane_bits(values.data(), rounds, code.lengths, lane_bits);
  std::uint64_t bits = 0;
  const Bf16* last_round = values.data() + in_rounds - kRoundValues;
  for (int lane = 0; lane < kLanes; ++lane) {
    const unsigned last_round_bits =
        code.lengths.of[(last_round[lane] >> 7) & 0xff] + code.lengths.of[(last_round[lane + kLanes] >> 7) & 0xff];
    padding[lane] = padding_bits(lane_bits[lane], last_round_bits);
    bits += padding[lane];
  }
  for (int e = 0; e < kExponents; ++e) bits += std::uint64_t{counts[e]} * code.lengths.of[e];

  std::byte table[kMostTableBytes];
  const std::size_t table_bytes = write_lengths(code.lengths, table);
  const std::size_t tail_bytes = (values.size() - in_rounds) * sizeof(Bf16);
  const std::size_t plane_at = table_bytes + bits / 8;
  const std::size_t bytes = plane_at + in_rounds + tail_bytes;
  if (bytes >= values.size() * sizeof(Bf16)) return 0;
  kernels.encode(values.data(), rounds, code, padding, out.data() + plane_at, out.data() + plane_at);
  std::memcpy(out.data(), table, table_bytes);  // After the words: their writer may have touched the bytes before them.
  if (tail_bytes != 0) std::memcpy(out.data() + plane_at + in_rounds, values.data() + in_rounds, tail_bytes);
  return bytes;
}

Status decode_lossless(Isa isa, std::span<const std::byte> coded, std::span<Bf16> values) {
  const std::size_t rounds = values.size() / kRoundValues;
  if (rounds == 0 || values.size() > kMostValues) return data_loss(std::to_string(values.size()) + " values are never coded");
  CodeLengths lengths;
  ExponentTable table;
  const std::size_t table_bytes = read_lengths(coded.data(), coded.size(), &lengths);
  if (table_bytes == 0) return data_loss("malformed code table");
  if (!make_table(lengths, &table)) return data_loss("the code table is not a complete code");

  const std::size_t in_rounds = rounds * kRoundValues;
  const std::size_t tail_bytes = (values.size() - in_rounds) * sizeof(Bf16);
  const std::size_t fixed_bytes = table_bytes + in_rounds + tail_bytes;
  if (coded.size() < fixed_bytes || (coded.size() - fixed_bytes) % kWordBytes != 0) {
    return data_loss(std::to_string(coded.size()) + " bytes cannot be " + std::to_string(values.size()) + " values");
  }
  const std::byte* words = coded.data() + table_bytes;
  const std::byte* plane = coded.data() + coded.size() - tail_bytes - in_rounds;
  if (!lossless_kernels_for(isa).decode(table, words, plane, plane, rounds, values.data())) {
    return data_loss("the code words end early or are not used up");
  }
  if (tail_bytes != 0) std::memcpy(values.data() + in_rounds, plane + in_rounds, tail_bytes);
  return {};
}

}  // namespace lynx::quant
