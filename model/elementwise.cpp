#include "model/elementwise.h"

#include "model/elementwise_paths.h"

namespace lynx::model {

const ElementwiseKernels& elementwise_kernels(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return elementwise_portable();
    case Isa::kAvx2: return elementwise_avx2();
    case Isa::kAvx512Bf16:
    case Isa::kAmxBf16: return elementwise_avx512();
  }
  return elementwise_portable();
}

}  // namespace lynx::model
