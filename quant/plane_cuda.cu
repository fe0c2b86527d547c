#include "quant/plane_cuda.h"

#include <cuda_runtime.h>

#include <cassert>
#include <string>
#include <utility>

#include "quant/plane_codec.h"
#include "quant/plane_team.h"
#include "quant/plane_warp.h"

namespace lynx::quant {
namespace {

constexpr int kTeamThreads = 256;
constexpr int kWarpsOfBlock = 4;
constexpr unsigned kAllLanes = 0xffffffffu;

/// A thread block.
struct CudaTeam {
  __device__ std::size_t first() const { return threadIdx.x; }
  __device__ std::size_t step() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
};

class CudaWarp {
 public:
  template <class T>
  struct Each {
    T own;
    __device__ T& operator[](int) { return own; }
  };
  template <class Body>
  __device__ void each(Body body) const {
    body(lane());
  }
  __device__ int rank(const Each<bool>& flags, Each<int>* before) const {
    const unsigned ballot = __ballot_sync(kAllLanes, flags.own);
    before->own = __popc(ballot & ((1u << lane()) - 1));
    return __popc(ballot);
  }
  __device__ bool all(const Each<bool>& flags) const { return __all_sync(kAllLanes, flags.own) != 0; }
  __device__ void sync() const { __syncwarp(); }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % kWarpLanes); }
};

/// What the warp of this thread works on; beyond the last one in the last block.
__device__ std::size_t warp_unit() {
  return std::size_t{blockIdx.x} * kWarpsOfBlock + threadIdx.x / kWarpLanes;
}

__global__ void encode_anchors_kernel(PlaneUnit unit, const Bf16* values, std::byte* anchors) {
  team_encode_anchor(CudaTeam{}, unit, values + blockIdx.x * unit_slots(unit), anchors + blockIdx.x * anchor_layout(unit).bytes);
}

__global__ void encode_int8_kernel(PlaneUnit unit, const std::byte* anchors, const Bf16* values, std::byte* residuals) {
  const std::size_t slots = unit_slots(unit);
  team_encode_int8(CudaTeam{}, unit, anchors + blockIdx.x * anchor_layout(unit).bytes, values + blockIdx.x * slots,
                   residuals + blockIdx.x * (slots / 2));
}

__global__ void decode_views_kernel(PlaneUnit unit, const std::byte* anchors, const std::byte* residuals, Bf16* views) {
  const std::size_t slots = unit_slots(unit);
  const std::byte* residual = residuals == nullptr ? nullptr : residuals + blockIdx.x * (slots / 2);
  team_decode_view(CudaTeam{}, unit, anchors + blockIdx.x * anchor_layout(unit).bytes, residual, views + blockIdx.x * slots);
}

__global__ void encode_exact_kernel(const ResidualCode* code, CudaUnits units, const std::byte* anchors, const Bf16* values,
                                    std::byte* residuals, std::uint32_t* bytes) {
  const std::size_t index = warp_unit();
  if (index >= plane_size(units.units)) return;  // The whole warp.
  const std::size_t slots = unit_slots(units.unit);
  const std::size_t used = warp_encode_exact(CudaWarp{}, *code, units.unit, anchors + index * anchor_layout(units.unit).bytes,
                                             values + index * slots, residuals + index * slots * sizeof(Bf16));
  if (threadIdx.x % kWarpLanes == 0) bytes[index] = static_cast<std::uint32_t>(used);
}

__global__ void decode_exact_kernel(const ResidualCode* code, CudaUnits units, const std::byte* anchors, const std::byte* residuals,
                                    const std::uint32_t* bytes, Bf16* values, std::uint32_t* sound) {
  const std::size_t index = warp_unit();
  if (index >= plane_size(units.units)) return;  // The whole warp.
  const std::size_t slots = unit_slots(units.unit);
  const bool whole = warp_decode_exact(CudaWarp{}, *code, units.unit, anchors + index * anchor_layout(units.unit).bytes,
                                       residuals + index * slots * sizeof(Bf16), bytes[index], values + index * slots);
  if (threadIdx.x % kWarpLanes == 0) sound[index] = whole ? 1 : 0;
}

cudaStream_t native(const cuda::Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

Status launched(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return internal_error(std::string(kernel) + ": " + cudaGetErrorString(error));
}

unsigned warp_blocks(int units) {
  return static_cast<unsigned>((units + kWarpsOfBlock - 1) / kWarpsOfBlock);
}

const ResidualCode* code_of(const cuda::Buffer& codes, const PlaneUnit& unit) {
  return static_cast<const ResidualCode*>(codes.data()) + (unit.wide_anchor ? 1 : 0);
}

}  // namespace

Result<CudaPlanes> CudaPlanes::create() {
  LYNX_TRY(auto codes, cuda::Buffer::allocate(cuda::Buffer::Place::kGpu, 2 * sizeof(ResidualCode)));
  LYNX_TRY(auto stream, cuda::Stream::create());
  auto* on_gpu = static_cast<ResidualCode*>(codes.data());
  LYNX_RETURN_IF_ERROR(stream.copy(on_gpu, &residual_code(false), sizeof(ResidualCode)));
  LYNX_RETURN_IF_ERROR(stream.copy(on_gpu + 1, &residual_code(true), sizeof(ResidualCode)));
  LYNX_RETURN_IF_ERROR(stream.synchronize());
  return CudaPlanes(std::move(codes));
}

Status CudaPlanes::encode_anchors(cuda::Stream& stream, CudaUnits units, const Bf16* values, std::byte* anchors) const {
  if (units.units == 0) return {};
  encode_anchors_kernel<<<static_cast<unsigned>(units.units), kTeamThreads, 0, native(stream)>>>(units.unit, values, anchors);
  return launched("encode_anchors");
}

Status CudaPlanes::encode_int8_residuals(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const Bf16* values,
                                         std::byte* residuals) const {
  assert(!units.unit.wide_anchor);
  if (units.units == 0) return {};
  encode_int8_kernel<<<static_cast<unsigned>(units.units), kTeamThreads, 0, native(stream)>>>(units.unit, anchors, values,
                                                                                              residuals);
  return launched("encode_int8_residuals");
}

Status CudaPlanes::decode_views(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const std::byte* residuals,
                                Bf16* views) const {
  if (units.units == 0) return {};
  decode_views_kernel<<<static_cast<unsigned>(units.units), kTeamThreads, 0, native(stream)>>>(units.unit, anchors, residuals,
                                                                                               views);
  return launched("decode_views");
}

Status CudaPlanes::encode_exact_residuals(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const Bf16* values,
                                          std::byte* residuals, std::uint32_t* bytes) const {
  if (units.units == 0) return {};
  encode_exact_kernel<<<warp_blocks(units.units), kWarpsOfBlock * kWarpLanes, 0, native(stream)>>>(
      code_of(codes_, units.unit), units, anchors, values, residuals, bytes);
  return launched("encode_exact_residuals");
}

Status CudaPlanes::decode_exact(cuda::Stream& stream, CudaUnits units, const std::byte* anchors, const std::byte* residuals,
                                const std::uint32_t* bytes, Bf16* values, std::uint32_t* sound) const {
  if (units.units == 0) return {};
  decode_exact_kernel<<<warp_blocks(units.units), kWarpsOfBlock * kWarpLanes, 0, native(stream)>>>(
      code_of(codes_, units.unit), units, anchors, residuals, bytes, values, sound);
  return launched("decode_exact");
}

}  // namespace lynx::quant
