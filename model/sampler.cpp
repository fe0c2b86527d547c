#include "model/sampler.h"

#include <algorithm>

#include "model/logit_scan.h"
#include "model/sample_draw.h"

namespace lynx::model {

namespace {

/// Keeps a finite logit finite: an extreme penalty must not turn it into a masked one.
float clamp_finite(float value) {
  return std::clamp(value, -kLargestLogit, kLargestLogit);
}

bool masks_end_tokens(const SamplingParams& params, const SampleContext& context) {
  return context.generated.size() < static_cast<std::size_t>(std::max(params.min_tokens, 0)) && !context.end_tokens.empty();
}

bool has_penalty(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

float penalized(float logit, const SamplingParams& params, std::int32_t generated_count) {
  if (!is_finite(logit)) return kMasked;
  float value = logit;
  if (params.repetition_penalty != 1.0F) {
    value = clamp_finite(value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty);
  }
  if (generated_count == 0) return value;
  value -= static_cast<float>(generated_count) * params.frequency_penalty;
  value -= params.presence_penalty;
  return clamp_finite(value);
}

/// Each distinct token is penalized once: its count, kept in `counts`, is marked done.
void apply_penalties(const SamplingParams& params, const SampleContext& context, SampleScratch& scratch) {
  constexpr std::int32_t kDone = -1;
  scratch.counts.resize(scratch.logits.size());
  const auto count_of = [&](std::int32_t token) -> std::int32_t& { return scratch.counts[static_cast<std::size_t>(token)]; };
  const auto apply = [&](std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      if (count_of(token) == kDone) continue;
      float& logit = scratch.logits[static_cast<std::size_t>(token)];
      logit = penalized(logit, params, count_of(token));
      count_of(token) = kDone;
    }
  };
  const auto seen_prompt = params.repetition_penalty != 1.0F ? context.prompt : std::span<const std::int32_t>{};
  for (const std::int32_t token : context.generated) ++count_of(token);
  apply(context.generated);
  apply(seen_prompt);
  for (const std::int32_t token : context.generated) count_of(token) = 0;
  for (const std::int32_t token : seen_prompt) count_of(token) = 0;
}

/// Steps 1 to 3 of the header. The result is the caller's logits when there is nothing to change.
std::span<const float> shape_logits(std::span<const float> logits, const SamplingParams& params, const SampleContext& context,
                                    SampleScratch& scratch) {
  const bool mask_ends = masks_end_tokens(params, context);
  if (!has_penalty(params) && params.logit_bias.empty() && !mask_ends) return logits;
  scratch.logits.assign(logits.begin(), logits.end());
  if (has_penalty(params)) apply_penalties(params, context, scratch);
  for (const auto& [token, bias] : params.logit_bias) {
    float& logit = scratch.logits[static_cast<std::size_t>(token)];
    if (is_finite(logit)) logit = clamp_finite(logit + bias);
  }
  if (mask_ends) {
    for (const std::int32_t token : context.end_tokens) scratch.logits[static_cast<std::size_t>(token)] = kMasked;
  }
  return scratch.logits;
}

/// When no logit is finite: the lowest id that min_tokens does not forbid. One pass over the vocabulary, however many end tokens.
std::int32_t lowest_allowed(std::size_t vocabulary, const SamplingParams& params, const SampleContext& context,
                            SampleScratch& scratch) {
  if (!masks_end_tokens(params, context)) return 0;
  scratch.counts.resize(vocabulary);
  for (const std::int32_t token : context.end_tokens) scratch.counts[static_cast<std::size_t>(token)] = 1;
  const auto allowed = std::find(scratch.counts.begin(), scratch.counts.end(), 0);
  const auto lowest = allowed == scratch.counts.end() ? 0 : allowed - scratch.counts.begin();
  for (const std::int32_t token : context.end_tokens) scratch.counts[static_cast<std::size_t>(token)] = 0;
  return static_cast<std::int32_t>(lowest);
}

/// Steps 4 to 8 of the header for a temperature that is not greedy.
std::int32_t draw_token(std::span<const float> logits, Best best, const SamplingParams& params, SampleKey key,
                        SampleScratch& scratch) {
  const LogitKernels& kernels = logit_kernels();
  const int count = static_cast<int>(logits.size());
  scratch.weights.resize(logits.size());
  scratch.logits.resize(logits.size());  // May be what `logits` points at: each value is read before it is replaced.
  const std::span<float> scaled = scratch.logits;
  const std::span<float> weights = scratch.weights;
  kernels.weigh(logits.data(), count, best.value, 1.0F / params.temperature, kDeepest, scaled.data(), weights.data());
  const auto drop_after = [&](Cut cut) { kernels.drop_after(scaled.data(), count, cut.scaled_logit, cut.token, weights.data()); };
  if (params.top_k > 0 && params.top_k < count) drop_after(cut_top_k(scaled, params.top_k, scratch.candidates));
  if (params.top_p < 1.0F) drop_after(cut_top_p(scaled, weights, params.top_p, scratch.candidates));
  if (params.min_p > 0.0F) {
    for (float& weight : weights) weight = weight >= params.min_p ? weight : 0.0F;
  }
  return draw(scaled, weights, key);
}

}  // namespace

std::int32_t sample(std::span<const float> logits, const SamplingParams& params, const SampleContext& context, SampleKey key,
                    SampleScratch& scratch) {
  const std::span<const float> shaped = shape_logits(logits, params, context, scratch);
  const Best best = find_best(shaped);
  if (best.value == kMasked) return lowest_allowed(logits.size(), params, context, scratch);
  if (params.temperature < kGreedyTemperature) return best.token;
  return draw_token(shaped, best, params, key, scratch);
}

}  // namespace lynx::model
