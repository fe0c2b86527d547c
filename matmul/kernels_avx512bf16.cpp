#include "matmul/avx512_lanes.h"

namespace lynx::matmul {
namespace {

void multiply_panel(const PanelTask& task) {
  const Panel& panel = task.panel;
  switch (panel.format) {
    case Format::kBf16: return multiply_with<Avx512Lanes>(Bf16Loader<Avx512Lanes>(panel), task);
    case Format::kInt4F16: return multiply_with<Avx512Lanes>(Int4Loader<Format::kInt4F16>(panel), task);
    case Format::kInt4F32: return multiply_with<Avx512Lanes>(Int4Loader<Format::kInt4F32>(panel), task);
    case Format::kInt8F16: return multiply_with<Avx512Lanes>(Int8Loader<Format::kInt8F16>(panel), task);
    case Format::kInt8F32: return multiply_with<Avx512Lanes>(Int8Loader<Format::kInt8F32>(panel), task);
  }
}

constexpr Kernels kKernels{Bf16Order::kStrips, true, 4, multiply_panel, avx512_expand_panel, nullptr};

}  // namespace

const Kernels& avx512bf16_kernels() {
  return kKernels;
}

}  // namespace lynx::matmul
