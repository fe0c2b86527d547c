#include "model/logit_scan.h"

#include <algorithm>

namespace lynx::model {

namespace {

constexpr std::size_t kBlock = 512;  ///< Of this many values the maximum is remembered, or the sum kept in FP32.

float block_maximum(const float* values, std::size_t count) {
  float lanes[kScanLanes];
  std::fill_n(lanes, kScanLanes, kMasked);
  std::size_t i = 0;
  for (; i + kScanLanes <= count; i += kScanLanes) {
    for (std::size_t lane = 0; lane < kScanLanes; ++lane) {
      const float value = finite_or_masked(values[i + lane]);
      lanes[lane] = lanes[lane] < value ? value : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], finite_or_masked(values[i]));
  return *std::max_element(lanes, lanes + kScanLanes);
}

double block_sum(const float* values, std::size_t count, float highest) {
  float lanes[kScanLanes] = {};
  std::size_t i = 0;
  for (; i + kScanLanes <= count; i += kScanLanes) {
    for (std::size_t lane = 0; lane < kScanLanes; ++lane) {
      lanes[lane] += exp_f32(finite_or_masked(values[i + lane]) - highest);
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += exp_f32(finite_or_masked(values[i]) - highest);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace

Best find_best(std::span<const float> logits) {
  float highest = kMasked;
  std::size_t block = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float value = block_maximum(logits.data() + begin, std::min(kBlock, logits.size() - begin));
    if (value > highest) {
      highest = value;
      block = begin;
    }
  }
  if (highest == kMasked) return {kMasked, 0};
  while (logits[block] != highest) ++block;
  return {highest, static_cast<std::int32_t>(block)};
}

double sum_of_exponentials(std::span<const float> logits, float highest) {
  double sum = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    sum += block_sum(logits.data() + begin, std::min(kBlock, logits.size() - begin), highest);
  }
  return sum;
}

}  // namespace lynx::model
