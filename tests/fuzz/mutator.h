#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace lynx::fuzz {

using Input = std::vector<std::byte>;
using Target = std::function<std::string(std::span<const std::byte>)>;

Input input_of(const std::string& text);

/// Runs a target on an exact-size copy of the input, and holds its memory against the input's size. Returns what went wrong, with
/// the first bytes of the input; empty = all is well.
std::string run_checked(const Target& target, const Input& input);

/// Every proper prefix of the first `header_bytes` bytes, then every `step`-th.
std::string try_truncations(const Target& target, const Input& seed, std::size_t header_bytes, std::size_t step);

/// Every byte of the first `header_bytes` replaced by each of a set of telling values.
std::string try_byte_changes(const Target& target, const Input& seed, std::size_t header_bytes);

/// A 32- and a 64-bit number of telling size written over every place of the first `header_bytes`.
std::string try_number_changes(const Target& target, const Input& seed, std::size_t header_bytes);

/// `count` random combinations of bit flips, inserted, removed, repeated and swapped pieces.
std::string try_random_changes(const Target& target, const Input& seed, std::size_t header_bytes, int count, std::mt19937_64& rng);

}  // namespace lynx::fuzz
