#include "device/exp_avx2.h"
#include "tests/device/exp_vectors.h"

namespace lynx {

void exp_values_avx2(const float* in, float* out, int count) {
  for (int i = 0; i < count; i += 8) _mm256_storeu_ps(out + i, exp_avx2(_mm256_loadu_ps(in + i)));
}

}  // namespace lynx
