#pragma once

namespace lynx {

/// The vector forms of exp_f32 over `count` values, a multiple of 16.
void exp_values_avx2(const float* in, float* out, int count);
void exp_values_avx512(const float* in, float* out, int count);

}  // namespace lynx
