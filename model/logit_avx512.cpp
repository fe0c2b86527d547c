#include "model/logit_kernels.h"

namespace lynx::model {

const LogitKernels& logit_kernels_avx512() {
  return kKernels;
}

}  // namespace lynx::model
