// The passes of model/logit_scan.h, compiled once per ISA path by the files that include this one: plain loops, which the compiler
// turns into that path's vectors. No standard-library code: see lynx_isa_sources in cmake/LynxRoom.cmake.
#pragma once

#include "device/exp_math.h"
#include "model/logit_scan.h"
#include "model/philox.h"

namespace lynx::model {
namespace {

constexpr int kLanes = 16;

LYNX_HD inline float finite_or_masked(float value) {
  return value >= -kLargestLogit && value <= kLargestLogit ? value : kMasked;
}

float maximum(const float* values, int count) {
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = kMasked;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = finite_or_masked(values[i + lane]);
      lanes[lane] = lanes[lane] < value ? value : lanes[lane];
    }
  }
  float highest = kMasked;
  for (; i < count; ++i) highest = highest < finite_or_masked(values[i]) ? values[i] : highest;
  for (int lane = 0; lane < kLanes; ++lane) highest = highest < lanes[lane] ? lanes[lane] : highest;
  return highest;
}

float sum_exponentials(const float* values, int count, float highest) {
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += exp_f32(finite_or_masked(values[i + lane]) - highest);
  }
  for (int lane = 0; i + lane < count; ++lane) lanes[lane] += exp_f32(finite_or_masked(values[i + lane]) - highest);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void weigh(const float* logits, int count, float highest, float factor, float deepest, float* scaled, float* weights) {
  for (int i = 0; i < count; ++i) {
    const float value = (finite_or_masked(logits[i]) - highest) * factor;
    const float weight = exp_f32(value);
    scaled[i] = value;
    weights[i] = value >= -deepest ? weight : 0.0F;
  }
}

int count_above(const float* values, int count, float bound) {
  int above = 0;
  for (int i = 0; i < count; ++i) above += values[i] >= bound ? 1 : 0;
  return above;
}

std::uint64_t mass_above(const float* scaled, const float* weights, int count, float bound) {
  constexpr float kUnits = 1073741824.0F;  // 2^30
  constexpr int kBlock = 32768;            // Sums of 16-bit halves over so many fit 32 bits: narrow lanes, twice as many.
  std::uint64_t mass = 0;
  for (int begin = 0; begin < count; begin += kBlock) {
    const int end = begin + kBlock < count ? begin + kBlock : count;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    for (int i = begin; i < end; ++i) {
      const std::uint32_t own = static_cast<std::uint32_t>(static_cast<std::int32_t>(weights[i] * kUnits));
      const std::uint32_t counted = own & (scaled[i] >= bound ? ~0U : 0U);
      low += counted & 0xffffU;
      high += counted >> 16;
    }
    mass += (std::uint64_t{high} << 16) + low;
  }
  return mass;
}

void drop_after(const float* scaled, int count, float last_scaled, std::int32_t last_token, float* weights) {
  for (int i = 0; i < count; ++i) {
    const bool kept = (scaled[i] > last_scaled) | ((scaled[i] == last_scaled) & (i <= last_token));
    const float weight = weights[i];
    weights[i] = kept ? weight : 0.0F;
  }
}

void random_words(std::uint32_t group, std::uint32_t position, std::uint32_t choice, std::uint64_t seed, std::uint32_t* words) {
  std::uint32_t blocks[4][kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    blocks[0][lane] = group * kLanes + static_cast<std::uint32_t>(lane);
    blocks[1][lane] = position;
    blocks[2][lane] = choice;
    blocks[3][lane] = 0;
  }
  philox4x32_10<kLanes>(blocks, seed);
  for (int word = 0; word < 4; ++word) {
    for (int lane = 0; lane < kLanes; ++lane) words[word * kLanes + lane] = blocks[word][lane];
  }
}

bool any_contender(const float* weights, const std::uint32_t* words, float bar) {
  unsigned any = 0;
  for (int i = 0; i < kNoiseGroup; ++i) any |= may_beat(weights[i], words[i], bar) ? 1U : 0U;
  return any != 0;
}

constexpr LogitKernels kKernels{&maximum,    &sum_exponentials, &weigh,        &count_above,
                                &mass_above, &drop_after,       &random_words, &any_contender};

}  // namespace
}  // namespace lynx::model
