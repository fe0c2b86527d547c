#include "model/elementwise_kernels.h"
#include "model/elementwise_paths.h"

namespace lynx::model {

const ElementwiseKernels& elementwise_avx512() {
  return kKernels;
}

}  // namespace lynx::model
