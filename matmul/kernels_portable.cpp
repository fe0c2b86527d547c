// Any x86-64 processor: 4 chains an output, multiply and add, through the compiler's vector types.

#include <cstring>

#include "matmul/lane_kernels.h"

namespace lynx::matmul {
namespace {

struct PortableLanes {
  using Acc = float __attribute__((vector_size(16)));
  using Step = std::uint32_t __attribute__((vector_size(16)));
  static constexpr int kStep = 8;
  static constexpr int kBlockRows = 2;
  static constexpr int kBlockColumns = 4;
  static constexpr int kSingleRowColumns = 4;

  [[gnu::always_inline]] static Acc zero() { return Acc{}; }
  [[gnu::always_inline]] static Step load(const Bf16* source) {
    Step pairs;
    std::memcpy(&pairs, source, sizeof pairs);
    return pairs;
  }
  [[gnu::always_inline]] static Acc even(Step pairs) { return reinterpret_cast<Acc>(pairs << 16); }
  [[gnu::always_inline]] static Acc odd(Step pairs) { return reinterpret_cast<Acc>(pairs & 0xffff0000u); }
  [[gnu::always_inline]] static Acc dot(Acc acc, Step x, Step w) { return acc + even(x) * even(w) + odd(x) * odd(w); }

  template <int kRows, int kColumns>
  [[gnu::always_inline]] static void reduce(const Acc (&acc)[kRows][kColumns], float* out, std::size_t stride) {
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) {
        const Acc& a = acc[i][j];
        out[static_cast<std::size_t>(i) * stride + j] = (a[0] + a[2]) + (a[1] + a[3]);
      }
    }
  }
};

void multiply_panel(const PanelTask& task) {
  multiply_with<PortableLanes>(Bf16Loader<PortableLanes>(task.panel), task);
}

constexpr Kernels kKernels{Bf16Order::kStrips, false, 0, multiply_panel, nullptr, nullptr};

}  // namespace

const Kernels& portable_kernels() {
  return kKernels;
}

}  // namespace lynx::matmul
