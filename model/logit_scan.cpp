#include "model/logit_scan.h"

#include <algorithm>

#include "device/isa.h"

namespace lynx::model {

namespace {

constexpr std::size_t kBlock = 512;  ///< Of so many values the maximum is remembered, or the sum kept in FP32.

int block_size(std::span<const float> logits, std::size_t begin) {
  return static_cast<int>(std::min(kBlock, logits.size() - begin));
}

const LogitKernels& choose_kernels() {
  if (isa_supported(Isa::kAvx512Bf16)) return logit_kernels_avx512();
  return isa_supported(Isa::kAvx2) ? logit_kernels_avx2() : logit_kernels_portable();
}

}  // namespace

const LogitKernels& logit_kernels() {
  static const LogitKernels& kernels = choose_kernels();
  return kernels;
}

Best find_best(std::span<const float> logits) {
  const LogitKernels& kernels = logit_kernels();
  float highest = kMasked;
  std::size_t token = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float value = kernels.maximum(logits.data() + begin, block_size(logits, begin));
    if (value > highest) {
      highest = value;
      token = begin;
    }
  }
  if (highest == kMasked) return {kMasked, 0};
  while (logits[token] != highest) ++token;
  return {highest, static_cast<std::int32_t>(token)};
}

double sum_of_exponentials(std::span<const float> logits, float highest) {
  const LogitKernels& kernels = logit_kernels();
  double sum = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    sum += static_cast<double>(kernels.sum_exponentials(logits.data() + begin, block_size(logits, begin), highest));
  }
  return sum;
}

}  // namespace lynx::model
