#include "matmul/avx512_lanes.h"
#include "matmul/tile_kernels.h"

namespace lynx::matmul {
namespace {

template <class Tiles>
constexpr Kernels kTileKernels{Bf16Order::kTiles, true, 0, multiply_tile_panel<Tiles>, avx512_expand_panel, pack_row_tiles};

}  // namespace

const Kernels& amx_kernels() {
  return kTileKernels<AmxTiles>;
}

const Kernels& emulated_amx_kernels() {
  return kTileKernels<EmulatedTiles>;
}

}  // namespace lynx::matmul
