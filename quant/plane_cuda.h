#pragma once

// The planes on a GPU: many units of the same form at once, with the bytes and values of quant/plane_codec.h. Without the CUDA
// layer everything is refused with UNIMPLEMENTED.

#include <cstddef>
#include <cstdint>

#include "common/status.h"
#include "device/bf16_math.h"
#include "device/cuda_device.h"
#include "quant/plane_unit.h"

namespace lynx::quant {

/// `units` units of one form. Pointers are to GPU memory where nothing else is said; units lie one behind the other there: values
/// and views [units][unit_slots], Anchors [units][anchor_bytes], int8 Residuals [units][int8_residual_bytes], exact Residuals
/// [units][exact_residual_bound].
struct CudaUnits {
  PlaneUnit unit;
  int units;
};

/// The code tables in a GPU's memory, and the kernels that need them. Work is queued in the caller's stream; buffers must outlive
/// it. Movable; any thread, one at a time for a stream.
class CudaPlanes {
 public:
  /// Uses the calling thread's current GPU, and waits for the copy of the tables. UNIMPLEMENTED, RESOURCE_EXHAUSTED, INTERNAL.
  static Result<CudaPlanes> create();

  Status encode_anchors(cuda::Stream& stream, CudaUnits units, const Bf16* values, std::byte* anchors) const;
  Status encode_int8_residuals(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const Bf16* values,
                               std::byte* residuals) const;
  /// The anchor view; with int8 Residuals (not nullptr) the int8 view.
  Status decode_views(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const std::byte* residuals,
                      Bf16* views) const;
  /// bytes[unit]: how many of its Residual are used, 0 where BF16 would not be longer.
  Status encode_exact_residuals(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const Bf16* values,
                                std::byte* residuals, std::uint32_t* bytes) const;
  /// Untrusted bytes, and numbers of bytes. sound[unit] is 1, or 0: then its Residual is damaged, and its values are anything.
  Status decode_exact(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const std::byte* residuals,
                      const std::uint32_t* bytes, Bf16* values, std::uint32_t* sound) const;

 private:
  explicit CudaPlanes(cuda::Buffer codes) : codes_(std::move(codes)) {}

  cuda::Buffer codes_;  ///< ResidualCode of Anchors, and of wide ones.
};

}  // namespace lynx::quant
