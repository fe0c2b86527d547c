#include "tests/quant/plane_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

namespace lynx::quant {
namespace {

using Bytes = std::vector<std::byte>;
using Values = std::vector<std::uint16_t>;

constexpr int kTokens = 64;

float to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
double finite_or_zero(std::uint16_t value) {
  const float x = to_float(value);
  return std::isfinite(x) ? static_cast<double>(x) : 0.0;
}
double scale_value(unsigned code) {
  return (1 + (code & 7) / 8.0) * std::exp2(static_cast<int>(code >> 3) - 24);
}
unsigned byte_at(const Bytes& bytes, std::size_t at) {
  return std::to_integer<unsigned>(bytes.at(at));
}
unsigned nibble_at(const Bytes& bytes, std::size_t base, std::size_t slot) {
  return byte_at(bytes, base + slot / 2) >> (slot % 2 != 0 ? 4 : 0) & 15;
}
void set_nibble(Bytes* bytes, std::size_t base, std::size_t slot, int value) {
  bytes->at(base + slot / 2) |= static_cast<std::byte>(slot % 2 != 0 ? value * 16 : value);
}
/// Ties to even; what std::nearbyint does in the default rounding mode.
double rounded(double x, double lo, double hi) {
  return std::clamp(std::nearbyint(x), lo, hi);
}

/// The nearest BF16 value: of the two around x, by comparing, the even one on a tie.
std::uint16_t to_bf16(double x) {
  if (x == 0) return 0;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));  // Exact: 16 bits at most.
  const auto low = static_cast<std::uint16_t>(bits >> 16);
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double below = std::abs(x - static_cast<double>(to_float(low)));
  const double above = std::abs(static_cast<double>(to_float(high)) - x);
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

struct Place {
  int head;
  int token;
  int channel;
  std::size_t slot;
  std::size_t group;
};

/// A unit's coded values in slot order, and its sinks.
struct Map {
  std::vector<Place> coded;
  std::vector<Place> sinks;
  std::size_t slots = 0;
  std::size_t groups = 0;
  std::size_t scales_at, zeros_at, codes_at, residuals_at, bytes;

  explicit Map(const ReferenceUnit& unit) {
    const int channels = (unit.head_dim + 31) / 32 * 32;
    const int token_groups = (unit.head_dim + 63) / 64;
    for (int head = 0; head < unit.heads; ++head) {
      if (unit.keys) {
        for (int group = 0; group < kTokens / 16; ++group)
          for (int pair = 0; pair < channels / 2; ++pair)
            for (int token = 0; token < 16; ++token)
              for (int c = 0; c < 2; ++c) add(unit, head, group * 16 + token, pair * 2 + c, token_groups);
      } else {
        for (int group = 0; group < channels / 16; ++group)
          for (int pair = 0; pair < kTokens / 2; ++pair)
            for (int channel = 0; channel < 16; ++channel)
              for (int t = 0; t < 2; ++t) add(unit, head, pair * 2 + t, group * 16 + channel, token_groups);
      }
    }
    std::stable_sort(sinks.begin(), sinks.end(), [](const Place& a, const Place& b) {
      return std::tie(a.head, a.token, a.channel) < std::tie(b.head, b.token, b.channel);
    });
    groups = static_cast<std::size_t>(unit.heads * (unit.keys ? unit.head_dim : kTokens * token_groups));
    scales_at = 2 * sinks.size();
    zeros_at = scales_at + groups;
    codes_at = zeros_at + groups;
    residuals_at = codes_at + slots / 2;
    bytes = residuals_at + (unit.wide ? slots / 2 : 0);
  }
  void add(const ReferenceUnit& unit, int head, int token, int channel, int token_groups) {
    const int group = unit.keys ? head * unit.head_dim + channel : (head * kTokens + token) * token_groups + channel / 64;
    const Place place{head, token, channel, slots++, static_cast<std::size_t>(group)};
    if (channel >= unit.head_dim) return;
    (unit.first_block && token < 4 ? sinks : coded).push_back(place);
  }
};

struct Levels {
  const ReferenceUnit& unit;
  const Map& map;
  const Bytes& anchor;
  const Bytes* nibbles;  ///< Of the Residual.
  std::size_t nibbles_at;

  unsigned scale_code(const Place& place) const { return byte_at(anchor, map.scales_at + place.group); }
  double scale(const Place& place) const { return scale_value(scale_code(place)) / (nibbles != nullptr ? 16 : 1); }
  int level(const Place& place) const {
    const auto zero = static_cast<std::int8_t>(byte_at(anchor, map.zeros_at + place.group));
    const int level = static_cast<int>(nibble_at(anchor, map.codes_at, place.slot)) + zero;
    return nibbles == nullptr ? level : 16 * level + static_cast<int>(nibble_at(*nibbles, nibbles_at, place.slot)) - 8;
  }
};

Levels levels_of(const ReferenceUnit& unit, const Map& map, const Bytes& anchor, const Bytes* residual) {
  if (unit.wide) return {unit, map, anchor, &anchor, map.residuals_at};
  return {unit, map, anchor, residual, 0};
}

Values begin_values(const Map& map, const Bytes& anchor) {
  Values values(map.slots, 0);
  for (std::size_t i = 0; i < map.sinks.size(); ++i) {
    values[map.sinks[i].slot] = static_cast<std::uint16_t>(byte_at(anchor, 2 * i) | byte_at(anchor, 2 * i + 1) << 8);
  }
  return values;
}

void write_residuals(const Map& map, const Levels& levels, const Values& values, Bytes* out, std::size_t at) {
  for (const Place& place : map.coded) {
    const double scale = levels.scale(place);
    const double rest = finite_or_zero(values[place.slot]) - levels.level(place) * scale;
    set_nibble(out, at, place.slot, static_cast<int>(rounded(rest / (scale / 16), -8, 7)) + 8);
  }
}

// The codes of the exact Residual.

/// Package-merge with the symbols spelled out.
std::vector<int> code_lengths(const std::vector<std::uint64_t>& masses) {
  struct Item {
    std::uint64_t mass;
    std::vector<int> symbols;
  };
  const auto lighter = [](const Item& a, const Item& b) { return a.mass < b.mass; };
  std::vector<Item> leaves;
  for (std::size_t i = 0; i < masses.size(); ++i) leaves.push_back({masses[i], {static_cast<int>(i)}});
  std::stable_sort(leaves.begin(), leaves.end(), lighter);
  std::vector<Item> items;
  for (int level = 0; level < 8; ++level) {
    std::vector<Item> next = leaves;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      Item pair = items[i];
      pair.mass += items[i + 1].mass;
      pair.symbols.insert(pair.symbols.end(), items[i + 1].symbols.begin(), items[i + 1].symbols.end());
      next.push_back(pair);
    }
    std::stable_sort(next.begin(), next.end(), lighter);
    items = next;
  }
  std::vector<int> lengths(masses.size());
  for (std::size_t i = 0; i < 2 * masses.size() - 2; ++i) {
    for (const int symbol : items[i].symbols) ++lengths[static_cast<std::size_t>(symbol)];
  }
  return lengths;
}

struct Context {
  int lowest = 0;
  int escape = 0;
  std::map<std::pair<int, unsigned>, int> symbols;  ///< By length and word.
};

Context make_context(std::vector<std::uint64_t> masses, int lowest) {
  std::uint64_t sum = 0;
  for (const std::uint64_t mass : masses) sum += mass;
  int shift = 0;
  while (sum >> shift >= 1u << 30) ++shift;
  for (std::uint64_t& mass : masses) mass = std::max<std::uint64_t>(mass >> shift, 1);
  masses.push_back(std::max<std::uint64_t>((sum >> shift) / 512, 1));
  const std::vector<int> lengths = code_lengths(masses);
  Context context;
  context.lowest = lowest;
  context.escape = static_cast<int>(masses.size()) - 1;
  unsigned word = 0;
  for (int length = 1; length <= 8; ++length, word *= 2) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] == length) context.symbols[{length, word++}] = static_cast<int>(i);
    }
  }
  return context;
}

int context_of(int level) {
  if (level < 16) return level;
  const int octave = static_cast<int>(std::floor(std::log2(level)));
  return 8 + 2 * octave + (2 * level >= 3 << octave ? 1 : 0);
}
int raw_bits_of(int context) {
  return context == 0 ? 7 : std::max(0, 3 - static_cast<int>(std::log2(context)));
}
int floor_divide(int value, int divisor) {
  return static_cast<int>(std::floor(static_cast<double>(value) / divisor));
}

/// Where a value stands among all, by its magnitude: −0 is just below 0.
int rank(std::uint16_t value) {
  return value >= 0x8000 ? -static_cast<int>(value & 0x7fff) - 1 : value;
}
std::uint16_t of_rank(int rank) {
  return static_cast<std::uint16_t>(rank < 0 ? 0x8000 | (-rank - 1) : rank);
}

std::vector<Context> make_contexts(bool wide) {
  std::map<int, std::map<int, std::uint64_t>> masses;  // By context and difference.
  for (int level = 1; level <= (wide ? 142 * 16 + 7 : 142); ++level) {
    for (const int sign : {1, -1}) {
      for (int mantissa = 0; mantissa < 8; ++mantissa) {
        const double scale = 1 + mantissa / 8.0;
        const int signed_level = sign * level;
        const double up = wide && ((signed_level % 16) + 16) % 16 == 7 ? 1 : 0.5;
        const int middle = rank(to_bf16(signed_level * scale));
        for (int apart = -255; apart <= 255; ++apart) {
          const std::uint16_t value = of_rank(middle + apart);
          const auto x = static_cast<double>(to_float(value));
          if (x < (signed_level - 0.5) * scale || x > (signed_level + up) * scale) continue;
          const int octave = std::ilogb(x) + 1;
          masses[context_of(level)][sign * apart] +=
              (std::uint64_t{1} << octave) * (360360 / (8 + static_cast<unsigned>(mantissa)));
        }
      }
    }
  }
  std::vector<Context> contexts;
  std::vector<std::uint64_t> zero(16);
  for (unsigned mantissa = 0; mantissa < 8; ++mantissa) {
    for (unsigned octave = 1; octave <= 8; ++octave) {
      const std::uint64_t mass = (octave == 1 ? mantissa * 256 : 4096u >> octave) * std::uint64_t{360360 / (8 + mantissa)};
      zero[octave - 1] += mass;
      zero[8 + octave - 1] += mass;
    }
  }
  contexts.push_back(make_context(zero, 0));
  for (int index = 1; index < 32; ++index) {
    masses[index][0] += 1;
    const int step = 1 << raw_bits_of(index);
    const int lowest = floor_divide(masses[index].begin()->first, step);
    std::vector<std::uint64_t> symbols(static_cast<std::size_t>(floor_divide(masses[index].rbegin()->first, step) - lowest + 1));
    for (const auto& [apart, mass] : masses[index]) symbols[static_cast<std::size_t>(floor_divide(apart, step) - lowest)] += mass;
    contexts.push_back(make_context(symbols, lowest));
  }
  return contexts;
}

}  // namespace

std::size_t reference_slots(const ReferenceUnit& unit) {
  return Map(unit).slots;
}

Bytes reference_anchor(const ReferenceUnit& unit, const Values& values) {
  const Map map(unit);
  Bytes out(map.bytes);
  for (std::size_t i = 0; i < map.sinks.size(); ++i) {
    out[2 * i] = static_cast<std::byte>(values[map.sinks[i].slot]);
    out[2 * i + 1] = static_cast<std::byte>(values[map.sinks[i].slot] >> 8);
  }
  std::map<std::size_t, std::vector<float>> groups;
  for (std::size_t group = 0; group < map.groups; ++group) groups[group] = {};
  for (const Place& place : map.coded) groups[place.group].push_back(static_cast<float>(finite_or_zero(values[place.slot])));
  for (auto& [group, members] : groups) {
    if (members.empty()) members = {0};
    const float lo = *std::min_element(members.begin(), members.end());
    const float hi = *std::max_element(members.begin(), members.end());
    const float wanted = std::max((hi - lo) / 15.0f, std::max(std::abs(lo), std::abs(hi)) / 120.0f);
    unsigned code = 0;
    while (code < 255 && scale_value(code) < static_cast<double>(wanted)) ++code;
    out[map.scales_at + group] = static_cast<std::byte>(code);
    out[map.zeros_at + group] =
        static_cast<std::byte>(static_cast<int>(rounded(static_cast<double>(lo) / scale_value(code), -128, 127)));
  }
  const Levels levels{unit, map, out, nullptr, 0};
  for (const Place& place : map.coded) {
    const auto zero = static_cast<std::int8_t>(byte_at(out, map.zeros_at + place.group));
    const double nearest = rounded(finite_or_zero(values[place.slot]) / levels.scale(place), -1024, 1024);
    set_nibble(&out, map.codes_at, place.slot, static_cast<int>(std::clamp(nearest - zero, 0.0, 15.0)));
  }
  if (unit.wide) write_residuals(map, levels, values, &out, map.residuals_at);
  return out;
}

Bytes reference_int8_residual(const ReferenceUnit& unit, const Values& values) {
  const Map map(unit);
  const Bytes anchor = reference_anchor(unit, values);
  Bytes out(map.slots / 2);
  write_residuals(map, {unit, map, anchor, nullptr, 0}, values, &out, 0);
  return out;
}

Values reference_view(const ReferenceUnit& unit, const Bytes& anchor, const Bytes* residual) {
  const Map map(unit);
  const Levels levels = levels_of(unit, map, anchor, residual);
  Values view = begin_values(map, anchor);
  for (const Place& place : map.coded) view[place.slot] = to_bf16(levels.level(place) * levels.scale(place));
  return view;
}

std::optional<Values> reference_exact(const ReferenceUnit& unit, const Bytes& anchor, const Bytes& residual) {
  static const std::vector<Context> kContexts[2] = {make_contexts(false), make_contexts(true)};
  const Map map(unit);
  const Levels levels = levels_of(unit, map, anchor, nullptr);
  Values values = begin_values(map, anchor);
  if (residual.size() % 2 != 0 || residual.size() >= 2 * map.slots) return std::nullopt;

  std::vector<std::vector<bool>> lanes(32);  // Bits in hand, the next one first.
  std::size_t front = 0;
  std::size_t back = residual.size();
  const auto take = [](std::vector<bool>* lane) {
    const bool bit = lane->front();
    lane->erase(lane->begin());
    return bit ? 1u : 0u;
  };
  auto place = map.coded.begin();
  for (std::size_t row = 0; row < map.slots; row += 32) {
    for (std::vector<bool>& lane : lanes) {
      if (lane.size() >= 16) continue;
      if (front == back) return std::nullopt;
      const unsigned word = byte_at(residual, front) | byte_at(residual, front + 1) << 8;
      front += 2;
      for (int bit = 15; bit >= 0; --bit) lane.push_back((word >> bit & 1) != 0);
    }
    for (; place != map.coded.end() && place->slot < row + 32; ++place) {
      std::vector<bool>* lane = &lanes[place->slot % 32];
      const int level = levels.level(*place);
      const int index = context_of(std::abs(level));
      const Context& context = kContexts[unit.wide ? 1 : 0][static_cast<std::size_t>(index)];
      unsigned word = 0;
      int length = 0;
      do {
        word = 2 * word + take(lane);
        ++length;
      } while (!context.symbols.contains({length, word}));
      const int symbol = context.symbols.at({length, word});
      if (symbol == context.escape) {
        if (front == back) return std::nullopt;
        back -= 2;
        values[place->slot] = static_cast<std::uint16_t>(byte_at(residual, back) | byte_at(residual, back + 1) << 8);
        continue;
      }
      int raw = 0;
      for (int bit = 0; bit < raw_bits_of(index); ++bit) raw = 2 * raw + static_cast<int>(take(lane));
      if (level == 0) {
        const int exponent = std::ilogb(levels.scale(*place)) + 127 - 1 - symbol % 8;
        values[place->slot] = static_cast<std::uint16_t>(symbol / 8 * 0x8000 + exponent * 128 + raw);
        continue;
      }
      const int apart = (symbol + context.lowest) * (1 << raw_bits_of(index)) + raw;
      values[place->slot] = of_rank(rank(to_bf16(level * levels.scale(*place))) + (level < 0 ? -apart : apart));
    }
  }
  for (const std::vector<bool>& lane : lanes) {
    if (std::find(lane.begin(), lane.end(), true) != lane.end()) return std::nullopt;
  }
  if (front != back) return std::nullopt;
  return values;
}

}  // namespace lynx::quant
