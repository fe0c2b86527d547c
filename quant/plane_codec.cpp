#include "quant/plane_codec.h"

#include <cassert>
#include <string>

#include "quant/plane_kernels.h"

namespace lynx::quant {
namespace {

[[maybe_unused]] bool valid(const PlaneUnit& unit) {
  return unit.heads > 0 && unit.head_dim > 0 && unit.head_dim % 2 == 0;
}

Status check_size(const char* plane, std::size_t bytes, std::size_t expected) {
  if (bytes == expected) return {};
  return {Code::kDataLoss, std::string(plane) + ": " + std::to_string(bytes) + " bytes, not " + std::to_string(expected)};
}

Status check_anchor(const PlaneUnit& unit, std::span<const std::byte> anchor) {
  return check_size("anchor plane", anchor.size(), anchor_bytes(unit));
}

}  // namespace

const PlaneKernels& plane_kernels_for(Isa isa) {
  switch (isa) {
    case Isa::kPortable: break;
    case Isa::kAvx2: return avx2_plane_kernels();
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16: return avx512_plane_kernels();
  }
  return portable_plane_kernels();
}

std::size_t anchor_bytes(const PlaneUnit& unit) {
  assert(valid(unit));
  return anchor_layout(unit).bytes;
}

std::size_t int8_residual_bytes(const PlaneUnit& unit) {
  assert(valid(unit));
  assert(!unit.wide_anchor);
  return unit_slots(unit) / 2;
}

std::size_t exact_residual_bound(const PlaneUnit& unit) {
  assert(valid(unit));
  return unit_slots(unit) * sizeof(Bf16);
}

void encode_anchor(Isa isa, const PlaneUnit& unit, std::span<const Bf16> values, std::span<std::byte> anchor) {
  assert(values.size() == unit_slots(unit));
  assert(anchor.size() == anchor_bytes(unit));
  plane_kernels_for(isa).encode_anchor(unit, values.data(), anchor.data());
}

Status decode_anchor(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<Bf16> view) {
  assert(view.size() == unit_slots(unit));
  LYNX_RETURN_IF_ERROR(check_anchor(unit, anchor));
  const std::byte* residual = unit.wide_anchor ? anchor.data() + anchor_layout(unit).residuals_at : nullptr;
  plane_kernels_for(isa).decode_view(unit, anchor.data(), residual, view.data());
  return {};
}

void encode_int8_residual(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const Bf16> values,
                          std::span<std::byte> residual) {
  assert(values.size() == unit_slots(unit));
  assert(anchor.size() == anchor_bytes(unit));
  assert(residual.size() == int8_residual_bytes(unit));
  plane_kernels_for(isa).encode_int8_residual(unit, anchor.data(), values.data(), residual.data());
}

Status decode_int8(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const std::byte> residual,
                   std::span<Bf16> view) {
  assert(view.size() == unit_slots(unit));
  LYNX_RETURN_IF_ERROR(check_anchor(unit, anchor));
  LYNX_RETURN_IF_ERROR(check_size("int8 residual", residual.size(), int8_residual_bytes(unit)));
  plane_kernels_for(isa).decode_view(unit, anchor.data(), residual.data(), view.data());
  return {};
}

std::size_t encode_exact_residual(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const Bf16> values,
                                  std::span<std::byte> residual) {
  assert(values.size() == unit_slots(unit));
  assert(anchor.size() == anchor_bytes(unit));
  assert(residual.size() == exact_residual_bound(unit));
  return plane_kernels_for(isa).encode_exact(unit, anchor.data(), values.data(), residual.data(), residual.size());
}

Status decode_exact(Isa isa, const PlaneUnit& unit, std::span<const std::byte> anchor, std::span<const std::byte> residual,
                    std::span<Bf16> values) {
  assert(values.size() == unit_slots(unit));
  LYNX_RETURN_IF_ERROR(check_anchor(unit, anchor));
  if (residual.size() >= exact_residual_bound(unit) || residual.size() % sizeof(Bf16) != 0) {
    return {Code::kDataLoss,
            "exact residual: " + std::to_string(residual.size()) + " bytes cannot be " + std::to_string(values.size()) + " values"};
  }
  if (!plane_kernels_for(isa).decode_exact(unit, anchor.data(), residual.data(), residual.size(), values.data())) {
    return {Code::kDataLoss, "exact residual: the code words end early or are not used up"};
  }
  return {};
}

}  // namespace lynx::quant
