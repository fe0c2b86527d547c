#pragma once

// What lets one formula header serve the C++ and the CUDA compiler.

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define LYNX_HD __host__ __device__
#else
// Always inlined: an out-of-line copy compiled for a newer processor must never be the one that the linker keeps.
#define LYNX_HD __attribute__((always_inline))
#endif

namespace lynx {

LYNX_HD inline std::uint32_t float_to_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

LYNX_HD inline float bits_to_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace lynx
