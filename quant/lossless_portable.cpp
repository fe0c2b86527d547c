#include "quant/lossless_scalar.h"

namespace lynx::quant {

const LosslessKernels& portable_lossless_kernels() {
  static constexpr LosslessKernels kKernels{count_lane_bits, encode, decode};
  return kKernels;
}

}  // namespace lynx::quant
