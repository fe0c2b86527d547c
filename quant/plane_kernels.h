#pragma once

// What one ISA path does of the planes: everything that runs once a value. Sizes were checked by the caller.

#include <cstddef>

#include "device/bf16_math.h"
#include "device/isa.h"
#include "quant/plane_unit.h"

namespace lynx::quant {

/// The parts of an Anchor, in the order in which they lie.
struct AnchorLayout {
  std::size_t sinks_at = 0;
  std::size_t scales_at;
  std::size_t zeros_at;
  std::size_t codes_at;
  std::size_t residuals_at;  ///< Of a wide Anchor: the four lower bits.
  std::size_t bytes;
};

constexpr AnchorLayout anchor_layout(const PlaneUnit& unit) {
  AnchorLayout layout{};
  layout.scales_at = plane_size(unit.heads) * plane_size(first_token(unit)) * plane_size(unit.head_dim) * sizeof(Bf16);
  layout.zeros_at = layout.scales_at + unit_groups(unit);
  layout.codes_at = layout.zeros_at + unit_groups(unit);
  layout.residuals_at = layout.codes_at + unit_slots(unit) / 2;
  layout.bytes = layout.residuals_at + (unit.wide_anchor ? unit_slots(unit) / 2 : 0);
  return layout;
}

struct PlaneKernels {
  void (*encode_anchor)(const PlaneUnit& unit, const Bf16* values, std::byte* anchor);
  void (*encode_int8_residual)(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual);
  /// The view at the Anchor's levels, or with the nibbles of `residual` at the int8 ones.
  void (*decode_view)(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, Bf16* view);
  /// 0 if it would take all `bytes` of `residual`, exact_residual_bound(unit), or more.
  std::size_t (*encode_exact)(const PlaneUnit& unit, const std::byte* anchor, const Bf16* values, std::byte* residual,
                              std::size_t bytes);
  /// False if the words end early, are not used up, or leave a lane with padding that is not 0.
  bool (*decode_exact)(const PlaneUnit& unit, const std::byte* anchor, const std::byte* residual, std::size_t bytes, Bf16* values);
};

const PlaneKernels& portable_plane_kernels();
const PlaneKernels& avx2_plane_kernels();
const PlaneKernels& avx512_plane_kernels();

/// The path's table. Only for isa_supported(isa).
const PlaneKernels& plane_kernels_for(Isa isa);

}  // namespace lynx::quant
