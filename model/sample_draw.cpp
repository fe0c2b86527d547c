#include "model/sample_draw.h"

#include <algorithm>

#include "model/double_math.h"
#include "model/logit_scan.h"

namespace lynx::model {

namespace {

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

bool comes_first(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

std::size_t count_above(std::span<const float> scaled, float bound) {
  return static_cast<std::size_t>(logit_kernels().count_above(scaled.data(), static_cast<int>(scaled.size()), bound));
}

/// What is added up along the order until enough is reached: the number of tokens.
struct CountMeasure {
  std::span<const float> scaled;
  std::uint64_t above(float bound) const { return count_above(scaled, bound); }
  std::uint64_t of(const Candidate&) const { return 1; }
};

/// The same for their mass.
struct MassMeasure {
  std::span<const float> scaled;
  std::span<const float> weights;
  std::uint64_t above(float bound) const {
    return logit_kernels().mass_above(scaled.data(), weights.data(), static_cast<int>(scaled.size()), bound);
  }
  std::uint64_t of(const Candidate& candidate) const {
    const float* const weight = &weights[static_cast<std::size_t>(candidate.second)];
    return logit_kernels().mass_above(&candidate.first, weight, 1, candidate.first);
  }
};

/// Depths between which the cut lies: the tokens above −shallow are not enough, those above −deep are.
struct Interval {
  float shallow;
  float deep;
};

/// Narrows by bisection until few tokens lie between, which is cheaper than sorting: each step is a pass of vector code.
template <class Measure>
Interval narrow(std::span<const float> scaled, double needed, const Measure& measure) {
  constexpr std::size_t kFew = 512;
  constexpr int kMostSteps = 16;  // Equal logits cannot be parted.
  Interval interval{-1, kDeepest};
  float depth = 8;
  for (int step = 0; step < kMostSteps; ++step) {
    (static_cast<double>(measure.above(-depth)) >= needed ? interval.deep : interval.shallow) = depth;
    if (count_above(scaled, -interval.deep) - count_above(scaled, -interval.shallow) <= kFew) break;
    depth = 0.5F * (interval.shallow + interval.deep);
  }
  return interval;
}

void collect(std::span<const float> scaled, Interval interval, std::vector<Candidate>& candidates) {
  candidates.clear();
  constexpr std::size_t kStretch = 64;
  for (std::size_t begin = 0; begin < scaled.size(); begin += kStretch) {
    const auto stretch = scaled.subspan(begin, std::min(kStretch, scaled.size() - begin));
    if (count_above(stretch, -interval.deep) == 0) continue;
    for (std::size_t i = 0; i < stretch.size(); ++i) {
      if (stretch[i] < -interval.deep || stretch[i] >= -interval.shallow) continue;
      candidates.emplace_back(stretch[i], static_cast<std::int32_t>(begin + i));
    }
  }
}

/// The last token of the smallest leading set that measures at least `needed`; at kDeepest when all of them do not.
template <class Measure>
Cut find_cut(std::span<const float> scaled, double needed, const Measure& measure, std::vector<Candidate>& buffer) {
  const Interval interval = narrow(scaled, needed, measure);
  collect(scaled, interval, buffer);
  std::uint64_t passed = measure.above(-interval.shallow);
  std::span<Candidate> candidates = buffer;
  while (candidates.size() > 16) {
    const std::size_t half = candidates.size() / 2;
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(half), candidates.end(), comes_first);
    std::uint64_t with_half = passed;
    for (const Candidate& candidate : candidates.first(half)) with_half += measure.of(candidate);
    if (static_cast<double>(with_half) >= needed) {
      candidates = candidates.first(half);
    } else {
      candidates = candidates.subspan(half);
      passed = with_half;
    }
  }
  std::sort(candidates.begin(), candidates.end(), comes_first);
  for (const Candidate& candidate : candidates) {
    passed += measure.of(candidate);
    if (static_cast<double>(passed) >= needed) return {candidate.first, candidate.second};
  }
  return {-kDeepest, static_cast<std::int32_t>(scaled.size())};
}

/// The running winner of a draw.
class Race {
 public:
  std::int32_t winner() const { return winner_; }
  float bar() const { return bar_; }

  void consider(std::int32_t token, float scaled, float weight, std::uint32_t word) {
    if (!may_beat(weight, word, bar_)) return;  // Most lose without a logarithm.
    const double exponential = -log_f64((static_cast<double>(word) + 0.5) * kTwoToMinus32);
    const double score = static_cast<double>(scaled) - log_f64(exponential);
    if (winner_ >= 0 && score <= score_) return;  // Tokens come in ascending order: a tie stays with the lower id.
    winner_ = token;
    score_ = score;
    bar_ = static_cast<float>(static_cast<double>(weight) / exponential);
  }

 private:
  std::int32_t winner_ = -1;
  double score_ = 0;
  float bar_ = 0;  // About e^score_.
};

bool any_weight(const float* weights) {
  unsigned live = 0;
  for (int i = 0; i < kNoiseGroup; ++i) live |= weights[i] > 0 ? 1U : 0U;
  return live != 0;
}

void run_group(std::size_t first, const float* scaled, const float* weights, SampleKey key, Race& race) {
  if (!any_weight(weights)) return;
  std::uint32_t words[kNoiseGroup];
  logit_kernels().random_words(static_cast<std::uint32_t>(first / kNoiseGroup), key.position, key.choice, key.seed, words);
  if (!logit_kernels().any_contender(weights, words, race.bar())) return;
  for (std::size_t i = 0; i < kNoiseGroup; ++i)
    race.consider(static_cast<std::int32_t>(first + i), scaled[i], weights[i], words[i]);
}

}  // namespace

Cut cut_top_k(std::span<const float> scaled, int top_k, std::vector<Candidate>& candidates) {
  return find_cut(scaled, static_cast<double>(top_k), CountMeasure{scaled}, candidates);
}

Cut cut_top_p(std::span<const float> scaled, std::span<const float> weights, float top_p, std::vector<Candidate>& candidates) {
  const MassMeasure measure{scaled, weights};
  return find_cut(scaled, static_cast<double>(top_p) * static_cast<double>(measure.above(-kDeepest)), measure, candidates);
}

std::int32_t draw(std::span<const float> scaled, std::span<const float> weights, SampleKey key) {
  Race race;
  const std::size_t whole = scaled.size() / kNoiseGroup * kNoiseGroup;
  for (std::size_t first = 0; first < whole; first += kNoiseGroup) run_group(first, &scaled[first], &weights[first], key, race);
  if (whole < scaled.size()) {
    float last_scaled[kNoiseGroup] = {};
    float last_weights[kNoiseGroup] = {};
    std::copy(scaled.begin() + static_cast<std::ptrdiff_t>(whole), scaled.end(), last_scaled);
    std::copy(weights.begin() + static_cast<std::ptrdiff_t>(whole), weights.end(), last_weights);
    run_group(whole, last_scaled, last_weights, key, race);
  }
  return race.winner();
}

}  // namespace lynx::model
