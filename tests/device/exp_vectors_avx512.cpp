#include "device/exp_avx512.h"
#include "tests/device/exp_vectors.h"

namespace lynx {

void exp_values_avx512(const float* in, float* out, int count) {
  for (int i = 0; i < count; i += 16) _mm512_storeu_ps(out + i, exp_avx512(_mm512_loadu_ps(in + i)));
}

}  // namespace lynx
