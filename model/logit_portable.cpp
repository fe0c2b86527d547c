#include "model/logit_kernels.h"

namespace lynx::model {

const LogitKernels& logit_kernels_portable() {
  return kKernels;
}

}  // namespace lynx::model
