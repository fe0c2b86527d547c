#pragma once

// What the tests of the planes share. Buffers have exactly the size that is promised, so that a sanitizer sees every byte read or
// written beyond them.

#include <cstring>
#include <memory>
#include <vector>

#include "device/isa.h"
#include "quant/plane_codec.h"
#include "tests/catch.h"

namespace lynx::quant {

using PlaneValues = std::vector<Bf16>;
using PlaneBytes = std::vector<std::byte>;

inline PlaneBytes make_anchor(const PlaneUnit& unit, const PlaneValues& values) {
  PlaneBytes anchor(anchor_bytes(unit), std::byte{0xa5});
  encode_anchor(Isa::kPortable, unit, values, anchor);
  return anchor;
}

inline PlaneBytes make_int8_residual(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneValues& values) {
  PlaneBytes residual(int8_residual_bytes(unit), std::byte{0xa5});
  encode_int8_residual(Isa::kPortable, unit, anchor, values, residual);
  return residual;
}

/// Empty for raw.
inline PlaneBytes make_exact_residual(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneValues& values) {
  PlaneBytes residual(exact_residual_bound(unit), std::byte{0xa5});
  residual.resize(encode_exact_residual(Isa::kPortable, unit, anchor, values, residual));
  return residual;
}

/// What is decoded of a unit: zeros in the slots that are not coded.
inline PlaneValues coded_values(const PlaneUnit& unit, const PlaneValues& values) {
  PlaneValues coded(values.size(), 0);
  for (int head = 0; head < unit.heads; ++head) {
    for (int token = 0; token < kPlaneBlockTokens; ++token) {
      for (int channel = 0; channel < unit.head_dim; ++channel) {
        const std::size_t slot = slot_of(unit, head, token, channel);
        coded[slot] = values[slot];
      }
    }
  }
  return coded;
}

/// The bytes in memory of just their size.
struct ExactBytes {
  explicit ExactBytes(const PlaneBytes& bytes) : data(new std::byte[bytes.size()]), size(bytes.size()) {
    if (size != 0) std::memcpy(data.get(), bytes.data(), size);
  }
  std::span<const std::byte> span() const { return {data.get(), size}; }

  std::unique_ptr<std::byte[]> data;
  std::size_t size;
};

inline Status decode_exact_at(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneBytes& residual, PlaneValues* values) {
  return decode_exact(Isa::kPortable, unit, ExactBytes(anchor).span(), ExactBytes(residual).span(), *values);
}

}  // namespace lynx::quant
