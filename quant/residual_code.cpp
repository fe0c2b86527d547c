#include "quant/residual_code.h"

#include <algorithm>
#include <cassert>

#include "device/bf16_math.h"

namespace lynx::quant {
namespace {

constexpr int kMostDifference = 255;  // Of a value and the middle of its step, in BF16 values.
constexpr int kMostAnchorLevel = 142;
constexpr int kMostWideLevel = kMostAnchorLevel * kInt8Steps + 7;
constexpr int kScales = 8;                    // Mantissas of UE5M3.
constexpr std::uint64_t kAllScales = 360360;  // A multiple of 8 … 15: masses divided by any mantissa stay whole.
constexpr int kEscapeRarity = 512;            // The code's longest words are for 1 in 256.
constexpr float kNearest = 0.5f;

/// How often each difference occurs, from −kMostDifference on.
struct Masses {
  std::uint64_t of[2 * kMostDifference + 1] = {};
  std::uint64_t& at(int difference) { return of[difference + kMostDifference]; }
};

/// Every BF16 value has the mass of the interval between it and the next, in units of the step.
std::uint64_t mass_of(Bf16 value, int mantissa) {
  const int octave = ((value >> 7) & 0xff) - 126;  // At least half of the least step, 1.
  return (std::uint64_t{1} << octave) * (kAllScales / static_cast<std::uint64_t>(8 + mantissa));
}

/// Adds the values that have `level` at the scale 1 + mantissa / 8. Wide levels 16 · m + 7 also have what is nearer to the next,
/// which 4 bits cannot say.
void add_level(int level, int mantissa, bool wide, Masses* masses) {
  const float scale = 1.0f + static_cast<float>(mantissa) / kScales;
  const float below = (static_cast<float>(level) - kNearest) * scale;
  const bool last_of_16 = wide && (level & 15) == 7;
  const float above = (static_cast<float>(level) + (last_of_16 ? 1.0f : kNearest)) * scale;
  const int middle = bf16_order(level_to_bf16(level, scale));
  const int sign = level < 0 ? -1 : 1;
  for (int difference = -kMostDifference; difference <= kMostDifference; ++difference) {
    const Bf16 value = bf16_from_order(middle + difference);
    const float x = bf16_to_float(value);
    if (x >= below && x <= above) masses->at(sign * difference) += mass_of(value, mantissa);
  }
}

/// A code for `symbols` masses, and an escape. Masses are scaled down to 32 bits.
void finish(const std::uint64_t* masses, int symbols, ResidualContext* context) {
  assert(symbols > 0 && symbols < kExponents);
  std::uint64_t sum = 0;
  for (int i = 0; i < symbols; ++i) sum += masses[i];
  int shift = 0;
  while (sum >> shift >= std::uint64_t{1} << 30) ++shift;
  std::uint32_t counts[kExponents] = {};
  for (int i = 0; i < symbols; ++i) counts[i] = static_cast<std::uint32_t>(std::max<std::uint64_t>(masses[i] >> shift, 1));
  counts[symbols] = static_cast<std::uint32_t>(std::max<std::uint64_t>((sum >> shift) / kEscapeRarity, 1));
  context->escape = symbols;
  context->code = make_code(counts);
  [[maybe_unused]] const bool complete = make_table(context->code.lengths, &context->table);
  assert(complete);
}

ResidualContext zero_context() {
  std::uint64_t masses[2 * kZeroOctaves] = {};
  for (int mantissa = 0; mantissa < kScales; ++mantissa) {
    const std::uint64_t one = kAllScales / static_cast<std::uint64_t>(8 + mantissa);
    for (int octave = 1; octave <= kZeroOctaves; ++octave) {
      // Of 0 … scale / 2, in 1/4096: the first octave is cut off there.
      const auto mass = static_cast<std::uint64_t>(octave == 1 ? mantissa << 8 : 4096 >> octave) * one;
      masses[octave - 1] += mass;
      masses[kZeroOctaves + octave - 1] += mass;
    }
  }
  ResidualContext context{};
  finish(masses, 2 * kZeroOctaves, &context);
  return context;
}

ResidualContext level_context(int index, Masses* masses) {
  ResidualContext context{};
  const int raw_bits = residual_raw_bits(index);
  std::uint64_t symbols[2 * kMostDifference + 1] = {};
  masses->at(0) += 1;  // So that no context is empty.
  int first = -kMostDifference;
  int last = kMostDifference;
  while (masses->at(first) == 0) ++first;
  while (masses->at(last) == 0) --last;
  context.lowest = first >> raw_bits;
  for (int difference = first; difference <= last; ++difference) {
    symbols[(difference >> raw_bits) - context.lowest] += masses->at(difference);
  }
  finish(symbols, (last >> raw_bits) - context.lowest + 1, &context);
  return context;
}

ResidualCode make_residual_code(bool wide) {
  Masses masses[kResidualContexts];
  const int most = wide ? kMostWideLevel : kMostAnchorLevel;
  for (int level = 1; level <= most; ++level) {
    for (int mantissa = 0; mantissa < kScales; ++mantissa) {
      Masses* of_level = &masses[residual_context(level)];
      add_level(level, mantissa, wide, of_level);
      add_level(-level, mantissa, wide, of_level);
    }
  }
  ResidualCode code{};
  code.contexts[0] = zero_context();
  for (int index = 1; index < kResidualContexts; ++index) code.contexts[index] = level_context(index, &masses[index]);
  return code;
}

}  // namespace

const ResidualCode& residual_code(bool wide) {
  static const ResidualCode code = make_residual_code(false);
  static const ResidualCode wide_code = make_residual_code(true);
  return wide ? wide_code : code;
}

}  // namespace lynx::quant
