#pragma once

// Lossless coding of BF16 values (docs/plane_format.md): exponents are entropy-coded, signs and mantissas travel as they are. What
// the encoder writes decodes bit for bit, NaN, infinities, −0 and denormals too, whatever path (portable, AVX2, AVX-512) did
// either.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "device/bf16_math.h"
#include "device/isa.h"

namespace lynx::quant {

/// The most bytes that encode_lossless() touches of its output for `values` values: raw, 2 · values.
std::size_t lossless_bound(std::size_t values);

/// Codes `values` into `out` (at least lossless_bound(values.size()) bytes); the number of bytes written, or 0 when that would not
/// be fewer than raw: then the caller sends raw. The same bytes on every path. Allocates nothing. Any thread.
std::size_t encode_lossless(Isa isa, std::span<const Bf16> values, std::span<std::byte> out);

/// Fills all of `values` from untrusted `coded`. DATA_LOSS naming what is wrong (sizes, code table, a stream that ends early or is
/// not used up); `values` are anything then. Bounded: no read outside `coded`, no write outside `values`. Allocates nothing unless
/// it fails. Any thread.
Status decode_lossless(Isa isa, std::span<const std::byte> coded, std::span<Bf16> values);

}  // namespace lynx::quant
