// The formulas of model/elementwise.h, compiled once per ISA path by the files that include this one: plain loops, which the
// compiler turns into that path's vectors. No include guard needed and no standard library: see lynx_isa_sources in
// cmake/LynxRoom.cmake.
#pragma once

#include "device/bf16_math.h"
#include "device/exp_math.h"
#include "model/elementwise.h"

namespace lynx::model {
namespace {

constexpr int kSumLanes = 16;

float sum_of_squares(const float* x, int n) {
  float lanes[kSumLanes] = {};
  int i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  }
  for (int lane = 0; i + lane < n; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void rms_norm(const float* x, const float* weight, int n, float epsilon, Bf16* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const float scale = 1.0F / __builtin_sqrtf(mean + epsilon);
  for (int i = 0; i < n; ++i) out[i] = float_to_bf16((x[i] * scale) * weight[i]);
}

void add(float* x, const float* delta, int n) {
  for (int i = 0; i < n; ++i) x[i] += delta[i];
}

void swiglu(const float* gate, const float* up, int n, Bf16* out) {
  for (int i = 0; i < n; ++i) {
    const float silu = gate[i] / (1.0F + exp_f32(-gate[i]));
    out[i] = float_to_bf16(silu * up[i]);
  }
}

void rotate_half(float* x, const float* cosine, const float* sine, int heads, int head_dim) {
  const int half = head_dim / 2;
  for (int head = 0; head < heads; ++head) {
    float* const low = x + static_cast<long>(head) * head_dim;
    float* const high = low + half;
    for (int i = 0; i < half; ++i) {
      const float a = low[i];
      const float b = high[i];
      low[i] = a * cosine[i] - b * sine[i];
      high[i] = b * cosine[i] + a * sine[i];
    }
  }
}

void rotate_interleaved(float* x, const float* cosine, const float* sine, int heads, int head_dim) {
  const int half = head_dim / 2;
  for (int head = 0; head < heads; ++head) {
    float* const pairs = x + static_cast<long>(head) * head_dim;
    for (int i = 0; i < half; ++i) {
      const float a = pairs[2 * i];
      const float b = pairs[2 * i + 1];
      pairs[2 * i] = a * cosine[i] - b * sine[i];
      pairs[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
  }
}

void round(const float* x, int n, Bf16* out) {
  for (int i = 0; i < n; ++i) out[i] = float_to_bf16(x[i]);
}

constexpr ElementwiseKernels kKernels{&rms_norm, &add, &swiglu, &rotate_half, &rotate_interleaved, &round};

}  // namespace
}  // namespace lynx::model
