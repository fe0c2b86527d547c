#pragma once

// What the tests of the planes share: every plane is written and read by all paths, which must agree. Buffers have exactly the size
// that is promised, so that a sanitizer sees every byte read or written beyond them.

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/isa.h"
#include "quant/plane_codec.h"
#include "tests/catch.h"
#include "tests/quant/paths.h"

namespace lynx::quant {

using PlaneValues = std::vector<Bf16>;
using PlaneBytes = std::vector<std::byte>;

/// What write(isa, plane) leaves in a plane of `bytes` bytes; every path must write the same.
template <class Write>
PlaneBytes same_on_all_paths(std::size_t bytes, Write write) {
  PlaneBytes first;
  for (const Isa isa : supported_paths()) {
    CAPTURE(isa_name(isa));
    PlaneBytes plane(bytes, std::byte{0xa5});
    plane.resize(write(isa, std::span(plane)));
    if (isa == Isa::kPortable) first = plane;
    if (plane != first) FAIL("not what the portable path writes");
  }
  return first;
}

inline PlaneBytes make_anchor(const PlaneUnit& unit, const PlaneValues& values) {
  return same_on_all_paths(anchor_bytes(unit), [&](Isa isa, std::span<std::byte> anchor) {
    encode_anchor(isa, unit, values, anchor);
    return anchor.size();
  });
}

inline PlaneBytes make_int8_residual(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneValues& values) {
  return same_on_all_paths(int8_residual_bytes(unit), [&](Isa isa, std::span<std::byte> residual) {
    encode_int8_residual(isa, unit, anchor, values, residual);
    return residual.size();
  });
}

/// Empty for raw.
inline PlaneBytes make_exact_residual(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneValues& values) {
  return same_on_all_paths(exact_residual_bound(unit), [&](Isa isa, std::span<std::byte> residual) {
    return encode_exact_residual(isa, unit, anchor, values, residual);
  });
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

/// What read(isa, values) makes of `values`; every path must judge alike, and give the same where it is OK.
template <class Read>
Status same_from_all_paths(PlaneValues* values, Read read) {
  Status first;
  PlaneValues of_first;
  for (const Isa isa : supported_paths()) {
    CAPTURE(isa_name(isa));
    values->assign(values->size(), 0x1234);
    const Status status = read(isa, std::span(*values));
    if (isa == Isa::kPortable) {
      first = status;
      of_first = *values;
    }
    if (status.to_string() != first.to_string()) FAIL(status.to_string() << ", not " << first.to_string());
    if (status.ok() && *values != of_first) FAIL("not the portable path's values");
  }
  return first;
}

inline Status decode_anchor_at(const PlaneUnit& unit, const PlaneBytes& anchor, PlaneValues* view) {
  const ExactBytes exact(anchor);
  return same_from_all_paths(view, [&](Isa isa, std::span<Bf16> out) { return decode_anchor(isa, unit, exact.span(), out); });
}

inline Status decode_int8_at(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneBytes& residual, PlaneValues* view) {
  const ExactBytes exact(anchor);
  const ExactBytes exact_residual(residual);
  return same_from_all_paths(
      view, [&](Isa isa, std::span<Bf16> out) { return decode_int8(isa, unit, exact.span(), exact_residual.span(), out); });
}

inline Status decode_exact_at(const PlaneUnit& unit, const PlaneBytes& anchor, const PlaneBytes& residual, PlaneValues* values) {
  const ExactBytes exact(anchor);
  const ExactBytes exact_residual(residual);
  return same_from_all_paths(
      values, [&](Isa isa, std::span<Bf16> out) { return decode_exact(isa, unit, exact.span(), exact_residual.span(), out); });
}

}  // namespace lynx::quant
