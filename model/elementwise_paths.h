#pragma once

#include "model/elementwise.h"

namespace lynx::model {

const ElementwiseKernels& elementwise_portable();
const ElementwiseKernels& elementwise_avx2();
const ElementwiseKernels& elementwise_avx512();

}  // namespace lynx::model
