#include "model/rope.h"

#include "model/double_math.h"

namespace lynx::model {

namespace {

constexpr float kTwoPi = 6.283185307179586F;

/// Llama 3.1's rule: long waves are slowed by the factor, short ones kept, those between blended.
float scale_llama3(float frequency, const RopeScaling& scaling) {
  const float context = static_cast<float>(scaling.original_context);
  const float wavelength = kTwoPi / frequency;
  if (wavelength > context / scaling.low_freq_factor) return frequency / scaling.factor;
  if (wavelength < context / scaling.high_freq_factor) return frequency;
  const float smooth = (context / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0F - smooth) * (frequency / scaling.factor) + smooth * frequency;
}

float scale(float frequency, std::size_t pair, const RopeScaling& scaling) {
  if (!scaling.factors.empty()) frequency /= scaling.factors[pair];
  switch (scaling.type) {
    case RopeScaling::Type::kNone: return frequency;
    case RopeScaling::Type::kLinear: return frequency / scaling.factor;
    case RopeScaling::Type::kLlama3: return scale_llama3(frequency, scaling);
  }
  return frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(static_cast<std::size_t>(config.head_dim / 2));
  const double log_theta = log_f64(static_cast<double>(config.rope_theta));
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(config.head_dim);
    const float power = static_cast<float>(exp_f64(static_cast<double>(exponent) * log_theta));
    frequencies[pair] = scale(1.0F / power, pair, config.rope_scaling);
  }
  return frequencies;
}

void rope_row(const std::vector<float>& frequencies, int position, float* cosine, float* sine) {
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    const float angle = static_cast<float>(position) * frequencies[pair];
    const SineCosine value = sine_cosine_f64(static_cast<double>(angle));
    cosine[pair] = static_cast<float>(value.cosine);
    sine[pair] = static_cast<float>(value.sine);
  }
}

}  // namespace lynx::model
