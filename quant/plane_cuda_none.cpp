#include "quant/plane_cuda.h"

// Builds without the CUDA toolkit. No CudaPlanes can be had, so its other members are never called.

namespace lynx::quant {
namespace {

Status refused() {
  return unimplemented("this build has no CUDA layer (built without the CUDA toolkit, or with LYNX_CUDA=OFF)");
}

}  // namespace

Result<CudaPlanes> CudaPlanes::create() {
  return refused();
}
Status CudaPlanes::encode_anchors(cuda::Stream&, CudaUnits, const Bf16*, std::byte*) const {
  return refused();
}
Status CudaPlanes::encode_int8_residuals(cuda::Stream&, CudaUnits, const std::byte*, const Bf16*, std::byte*) const {
  return refused();
}
Status CudaPlanes::decode_views(cuda::Stream&, CudaUnits, const std::byte*, const std::byte*, Bf16*) const {
  return refused();
}
Status CudaPlanes::encode_exact_residuals(cuda::Stream&, CudaUnits, const std::byte*, const Bf16*, std::byte*,
                                          std::uint32_t*) const {
  return refused();
}
Status CudaPlanes::decode_exact(cuda::Stream&, CudaUnits, const std::byte*, const std::byte*, const std::uint32_t*, Bf16*,
                                std::uint32_t*) const {
  return refused();
}

}  // namespace lynx::quant
