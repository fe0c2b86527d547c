#include "model/elementwise_kernels.h"
#include "model/elementwise_paths.h"

namespace lynx::model {

const ElementwiseKernels& elementwise_portable() {
  return kKernels;
}

}  // namespace lynx::model
