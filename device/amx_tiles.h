#pragma once

// AMX tile registers behind a small policy type, so that one kernel template runs on the hardware (AmxTiles) and, in tests on
// machines without AMX, in plain C++ (EmulatedTiles). Own inline assembly: GCC 12's intrinsics lack the "memory" clobber and are
// reordered across ordinary stores. Semantics: Intel's manual, volume 2, TDPBF16PS.
//
// Internal linkage throughout: the header is compiled with the flags of several ISA paths, and the linker must not merge them.

#include <cstddef>
#include <cstdint>

#include "device/portability.h"

namespace lynx {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;  ///< 16 FP32 values, or 16 pairs of BF16 values.
inline constexpr int kTileCount = 8;
inline constexpr int kTileK = 32;  ///< BF16 values of one row that dot() consumes.

/// The hardware. Only where isa_supported(Isa::kAmxBf16). All tiles are 16 rows × 64 bytes while an object lives (per thread).
class AmxTiles {
 public:
  [[gnu::always_inline]] AmxTiles() {
    struct alignas(64) Config {
      std::uint8_t palette, start_row, reserved[14];
      std::uint16_t row_bytes[16];
      std::uint8_t rows[16];
    } config = {};
    config.palette = 1;
    for (int t = 0; t < kTileCount; ++t) {
      config.row_bytes[t] = kTileRowBytes;
      config.rows[t] = kTileRows;
    }
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  [[gnu::always_inline]] ~AmxTiles() { asm volatile("tilerelease" ::: "memory"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int tile>
  [[gnu::always_inline]] void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile) : "memory");
  }
  /// 16 rows of 64 bytes, `stride_bytes` apart.
  template <int tile>
  [[gnu::always_inline]] void load(const void* base, std::size_t stride_bytes) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(base), "r"(stride_bytes) : "memory");
  }
  template <int tile>
  [[gnu::always_inline]] void store(void* base, std::size_t stride_bytes) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(tile), "r"(base), "r"(stride_bytes) : "memory");
  }
  /// acc[m][n] += Σ_k left[m][k] · right[k/2][n][k%2], BF16 in, FP32 out: left has 32 k a row, right is in VNNI order.
  template <int acc, int left, int right>
  [[gnu::always_inline]] void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(acc), "i"(left), "i"(right) : "memory");
  }
};

/// The same in C++, as Intel's pseudo-code has it: even and odd k are two chains from zero, added to each other and then to the
/// accumulator; subnormal inputs and results count as zero. (The product of two BF16 values is exact in FP32, so multiply-then-add
/// rounds as the fused operation does.)
class EmulatedTiles {
 public:
  template <int tile>
  void zero() {
    for (auto& row : tiles_[tile].words) {
      for (std::uint32_t& word : row) word = 0;
    }
  }
  template <int tile>
  void load(const void* base, std::size_t stride_bytes) {
    for (int row = 0; row < kTileRows; ++row) {
      std::memcpy(tiles_[tile].words[row], static_cast<const char*>(base) + row * stride_bytes, kTileRowBytes);
    }
  }
  template <int tile>
  void store(void* base, std::size_t stride_bytes) {
    for (int row = 0; row < kTileRows; ++row) {
      std::memcpy(static_cast<char*>(base) + row * stride_bytes, tiles_[tile].words[row], kTileRowBytes);
    }
  }
  template <int acc, int left, int right>
  void dot() {
    for (int m = 0; m < kTileRows; ++m) {
      float even[kColumns] = {};
      float odd[kColumns] = {};
      for (int pair = 0; pair < kTileK / 2; ++pair) {
        const std::uint32_t x = tiles_[left].words[m][pair];
        for (int n = 0; n < kColumns; ++n) {
          const std::uint32_t w = tiles_[right].words[pair][n];
          even[n] = flush(even[n] + flush(low_half(x)) * flush(low_half(w)));
          odd[n] = flush(odd[n] + flush(high_half(x)) * flush(high_half(w)));
        }
      }
      for (int n = 0; n < kColumns; ++n) {
        std::uint32_t& word = tiles_[acc].words[m][n];
        word = float_to_bits(flush(flush(bits_to_float(word)) + flush(even[n] + odd[n])));
      }
    }
  }

 private:
  static constexpr int kColumns = kTileRowBytes / 4;
  struct Tile {
    std::uint32_t words[kTileRows][kColumns];
  };

  static float low_half(std::uint32_t word) { return bits_to_float(word << 16); }
  static float high_half(std::uint32_t word) { return bits_to_float(word & 0xffff0000u); }
  static float flush(float value) {
    const std::uint32_t bits = float_to_bits(value);
    return bits_to_float((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  }

  Tile tiles_[kTileCount] = {};
};

}  // namespace
}  // namespace lynx
