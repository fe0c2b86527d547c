#pragma once

// A second decoder of the lossless plane, written from docs/plane_format.md and nothing else: slow and plain.

#include <optional>
#include <span>
#include <vector>

#include "device/bf16_math.h"

namespace lynx::quant {

/// The values, or nullopt if the bytes are not a coding of `count` values.
std::optional<std::vector<Bf16>> reference_decode(std::span<const std::byte> coded, std::size_t count);

}  // namespace lynx::quant
