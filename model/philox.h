#pragma once

// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): random words as a function of a counter and a
// key, without state.

#include <cstdint>

#include "device/portability.h"

namespace lynx::model {

/// `Lanes` counters at once, so that the compiler can use vectors: words[w][lane] holds word w of each counter, and is replaced by
/// word w of its random block. The result does not depend on Lanes.
template <int Lanes>
LYNX_HD inline void philox4x32_10(std::uint32_t words[4][Lanes], std::uint64_t key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
  std::uint32_t key_low = static_cast<std::uint32_t>(key);
  std::uint32_t key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 1  // Unrolled, it would not become vector code.
    for (int lane = 0; lane < Lanes; ++lane) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * words[0][lane];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * words[2][lane];
      const std::uint32_t word1 = words[1][lane];
      const std::uint32_t word3 = words[3][lane];
      words[0][lane] = static_cast<std::uint32_t>(product1 >> 32) ^ word1 ^ key_low;
      words[1][lane] = static_cast<std::uint32_t>(product1);
      words[2][lane] = static_cast<std::uint32_t>(product0 >> 32) ^ word3 ^ key_high;
      words[3][lane] = static_cast<std::uint32_t>(product0);
    }
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
}

}  // namespace lynx::model
