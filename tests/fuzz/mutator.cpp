#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "tests/fuzz/allocation_meter.h"

namespace lynx::fuzz {
namespace {

/// Memory that a reader may use: JSON trees take some twenty times their text, and the vocabulary's slots are there whatever the
/// text says.
constexpr std::size_t kFreeBytes = 96 << 10;
constexpr std::size_t kBytesPerByte = 48;

std::string describe(const Input& input) {
  std::string out = fmt::format(" (input of {} bytes:", input.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(input.size(), 48); ++i)
    out += fmt::format(" {:02x}", std::to_integer<int>(input[i]));
  return out + ")";
}

void flip_bits(Input& input, std::size_t region, std::mt19937_64& rng) {
  input[rng() % region] ^= static_cast<std::byte>(1U << (rng() % 8));
}

void remove_piece(Input& input, std::size_t region, std::mt19937_64& rng) {
  const auto at = static_cast<std::ptrdiff_t>(rng() % region);
  const auto length = std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(1 + rng() % 16), std::ssize(input) - at);
  input.erase(input.begin() + at, input.begin() + at + length);
}

void repeat_piece(Input& input, std::size_t region, std::mt19937_64& rng) {
  const std::size_t from = rng() % region;
  const std::size_t length = std::min<std::size_t>(1 + rng() % 64, input.size() - from);
  const Input piece(input.begin() + static_cast<std::ptrdiff_t>(from), input.begin() + static_cast<std::ptrdiff_t>(from + length));
  input.insert(input.begin() + static_cast<std::ptrdiff_t>(rng() % region), piece.begin(), piece.end());
}

void swap_pieces(Input& input, std::size_t region, std::mt19937_64& rng) {
  const std::size_t a = rng() % region;
  const std::size_t b = rng() % region;
  const std::size_t length = std::min<std::size_t>(1 + rng() % 8, input.size() - std::max(a, b));
  for (std::size_t i = 0; i < length; ++i) std::swap(input[a + i], input[b + i]);
}

void mutate(Input& input, std::size_t header_bytes, std::mt19937_64& rng) {
  for (std::uint64_t step = 0, steps = 1 + rng() % 4; step < steps && !input.empty(); ++step) {
    const std::size_t region = std::min(header_bytes, input.size());
    switch (rng() % 4) {
      case 0: flip_bits(input, region, rng); break;
      case 1: remove_piece(input, region, rng); break;
      case 2: repeat_piece(input, region, rng); break;
      default: swap_pieces(input, region, rng); break;
    }
  }
}

template <class Number>
std::string write_everywhere(const Target& target, const Input& seed, std::size_t header_bytes, std::span<const Number> numbers) {
  for (std::size_t at = 0; at + sizeof(Number) <= std::min(header_bytes, seed.size()); ++at) {
    for (const Number number : numbers) {
      Input input = seed;
      std::memcpy(input.data() + at, &number, sizeof number);
      if (std::string wrong = run_checked(target, input); !wrong.empty())
        return fmt::format("{} written at {}: {}", number, at, wrong);
    }
  }
  return {};
}

}  // namespace

Input input_of(const std::string& text) {
  Input bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string run_checked(const Target& target, const Input& input) {
  // Without spare capacity: a sanitizer then sees the first byte beyond the end.
  const auto exact = std::make_unique<std::byte[]>(input.size());
  std::copy(input.begin(), input.end(), exact.get());
  reset_allocation_peak();
  std::string wrong = target({exact.get(), input.size()});
  const std::size_t most = kFreeBytes + kBytesPerByte * input.size();
  if (wrong.empty() && allocation_peak() > most) wrong = fmt::format("{} bytes of memory", allocation_peak());
  return wrong.empty() ? wrong : wrong + describe(input);
}

std::string try_truncations(const Target& target, const Input& seed, std::size_t header_bytes, std::size_t step) {
  for (std::size_t length = 0; length < seed.size(); length += length < header_bytes ? 1 : step) {
    const Input input(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(length));
    if (std::string wrong = run_checked(target, input); !wrong.empty()) return fmt::format("cut to {}: {}", length, wrong);
  }
  return {};
}

std::string try_byte_changes(const Target& target, const Input& seed, std::size_t header_bytes) {
  constexpr int kValues[] = {0x00, 0x01, 0x09, '"', ',', '0', '[', '{', 0x7f, 0x80, 0xff};
  for (std::size_t at = 0; at < std::min(header_bytes, seed.size()); ++at) {
    for (const int value : kValues) {
      Input input = seed;
      input[at] = static_cast<std::byte>(value);
      if (std::string wrong = run_checked(target, input); !wrong.empty()) return fmt::format("byte {} = {}: {}", at, value, wrong);
    }
  }
  return {};
}

std::string try_number_changes(const Target& target, const Input& seed, std::size_t header_bytes) {
  constexpr std::uint32_t kWords[] = {0xffffffffU, 0x80000000U, 0x7fffffffU, 0x00010000U};
  constexpr std::uint64_t kLongs[] = {~0ULL, 1ULL << 63, (1ULL << 63) - 32, 1ULL << 61, 1ULL << 32, 1ULL << 24};
  std::string wrong = write_everywhere<std::uint32_t>(target, seed, header_bytes, kWords);
  return wrong.empty() ? write_everywhere<std::uint64_t>(target, seed, header_bytes, kLongs) : wrong;
}

std::string try_random_changes(const Target& target, const Input& seed, std::size_t header_bytes, int count, std::mt19937_64& rng) {
  for (int round = 0; round < count; ++round) {
    Input input = seed;
    mutate(input, header_bytes, rng);
    if (std::string wrong = run_checked(target, input); !wrong.empty()) return fmt::format("round {}: {}", round, wrong);
  }
  return {};
}

}  // namespace lynx::fuzz
