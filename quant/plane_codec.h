#pragma once

// The Anchor, the int8 Residual and the exact Residual of a unit (docs/plane_format.md; plane_unit.h says in which order its values
// lie). A view is BF16: level · scale, rounded once. Both nodes get the same bits from the same planes, whatever path either runs.
//
// Decoders take untrusted bytes: DATA_LOSS naming what is wrong, no access beyond the spans, values are anything then. Nothing
// allocates unless it fails, but for the code tables at the first use of the exact Residual. Any thread. Spans have exactly
// the size that is said; `values` and views have unit_slots(unit) elements.

#include <cstddef>
#include <span>

#include "common/status.h"
#include "device/bf16_math.h"
#include "device/isa.h"
#include "quant/plane_unit.h"

namespace lynx::quant {

std::size_t anchor_bytes(const PlaneUnit& unit);
/// Of a unit whose Anchor is not wide.
std::size_t int8_residual_bytes(const PlaneUnit& unit);
/// The most that an exact Residual has: what BF16 takes.
std::size_t exact_residual_bound(const PlaneUnit& unit);

/// Writes anchor_bytes(unit). Slots that are not coded are not looked at.
void encode_anchor(Isa isa, const PlaneUnit& unit, std::span<const Bf16> values, std::span<std::byte> anchor);
/// The anchor view; slots that are not coded become 0, here and below.
Status decode_anchor(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<Bf16> view);

/// Writes int8_residual_bytes(unit), which refer to the Anchor of the same values.
void encode_int8_residual(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const Bf16> values,
                          std::span<std::byte> residual);
/// The int8 view.
Status decode_int8(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const std::byte> residual,
                   std::span<Bf16> view);

/// Codes what the Anchor lacks into `residual` (exact_residual_bound(unit) bytes, all of which are working memory); the number of
/// bytes, or 0 when BF16 would not be longer: then the caller sends that.
std::size_t encode_exact_residual(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const Bf16> values,
                                  std::span<std::byte> residual);
/// The values bit for bit, NaN, infinities, −0 and denormals too.
Status decode_exact(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const std::byte> residual,
                    std::span<Bf16> values);

}  // namespace lynx::quant
