#pragma once

// A second codec for the planes, written from docs/plane_format.md alone: slow, in double and whole numbers, sharing no code with
// quant/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lynx::quant {

struct ReferenceUnit {
  bool keys;
  int heads;
  int head_dim;
  bool first_block;
  bool wide;
};

std::size_t reference_slots(const ReferenceUnit& unit);
std::vector<std::byte> reference_anchor(const ReferenceUnit& unit, const std::vector<std::uint16_t>& values);
std::vector<std::byte> reference_int8_residual(const ReferenceUnit& unit, const std::vector<std::uint16_t>& values);

/// The anchor view, or with a Residual the int8 one.
std::vector<std::uint16_t> reference_view(const ReferenceUnit& unit, const std::vector<std::byte>& anchor,
                                          const std::vector<std::byte>* residual);

/// Nothing if the Residual is unsound.
std::optional<std::vector<std::uint16_t>> reference_exact(const ReferenceUnit& unit, const std::vector<std::byte>& anchor,
                                                          const std::vector<std::byte>& residual);

}  // namespace lynx::quant
