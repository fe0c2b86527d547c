#include "model/sample_draw.h"

#include <algorithm>

#include "model/double_math.h"
#include "model/logit_scan.h"
#include "model/philox.h"

namespace lynx::model {

namespace {

constexpr float kMassUnits = 1073741824.0F;  // 2^30
constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

bool comes_first(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

std::uint32_t mass_of(float weight) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(weight * kMassUnits));
}

std::size_t count_above(std::span<const float> scaled, float bound) {
  std::uint32_t count = 0;
  for (const float value : scaled) count += value >= bound ? 1U : 0U;
  return count;
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
    constexpr std::size_t kBlock = 32768;  // Sums of 16-bit halves over so many tokens fit 32 bits: narrow lanes, twice as many.
    std::uint64_t mass = 0;
    for (std::size_t begin = 0; begin < scaled.size(); begin += kBlock) {
      const std::size_t end = std::min(begin + kBlock, scaled.size());
      std::uint32_t low = 0;
      std::uint32_t high = 0;
      for (std::size_t id = begin; id < end; ++id) {
        const std::uint32_t own = mass_of(weights[id]) & (scaled[id] >= bound ? ~0U : 0U);
        low += own & 0xffffU;
        high += own >> 16;
      }
      mass += (std::uint64_t{high} << 16) + low;
    }
    return mass;
  }
  std::uint64_t of(const Candidate& candidate) const { return mass_of(weights[static_cast<std::size_t>(candidate.second)]); }
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
  for (std::size_t begin = 0; begin < scaled.size(); begin += kScanLanes) {
    const auto stretch = scaled.subspan(begin, std::min<std::size_t>(kScanLanes, scaled.size() - begin));
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

double gumbel_from_word(std::uint32_t word) {
  return -log_f64(-log_f64((static_cast<double>(word) + 0.5) * kTwoToMinus32));
}

/// The running winner of a draw.
class Race {
 public:
  Race(std::span<const float> scaled, std::span<const float> weights) : scaled_(scaled), weights_(weights) {}

  std::int32_t winner() const { return winner_; }

  /// One Philox block: four words for the tokens from `token` on.
  void consider(std::int32_t token, std::uint32_t word) {
    const auto id = static_cast<std::size_t>(token);
    // e^score = weight / (−ln u) ≤ weight / (1 − u): most lose without a logarithm. (1 + 2^-10 outweighs all rounding.)
    const float most = weights_[id] * (4294967296.0F * 1.0009765625F);
    if (!(most > static_cast<float>(~word) * bar_)) return;
    const double exponential = -log_f64((static_cast<double>(word) + 0.5) * kTwoToMinus32);
    const double score = static_cast<double>(scaled_[id]) - log_f64(exponential);
    if (winner_ >= 0 && (score < score_ || (score == score_ && token > winner_))) return;
    winner_ = token;
    score_ = score;
    bar_ = static_cast<float>(static_cast<double>(weights_[id]) / exponential);
  }

 private:
  std::span<const float> scaled_;
  std::span<const float> weights_;
  std::int32_t winner_ = -1;
  double score_ = 0;
  float bar_ = 0;  // About e^score_.
};

/// Philox blocks made together, for vector code.
constexpr int kBlocks = 16;

void run_blocks(std::span<const std::uint32_t> blocks, SampleKey key, std::size_t vocabulary, Race& race) {
  std::uint32_t words[4][kBlocks] = {};
  for (std::size_t lane = 0; lane < blocks.size(); ++lane) {
    words[0][lane] = blocks[lane];
    words[1][lane] = key.position;
    words[2][lane] = key.choice;
  }
  philox4x32_10<kBlocks>(words, static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32));
  for (std::size_t lane = 0; lane < blocks.size(); ++lane) {
    for (std::uint32_t word = 0; word < 4; ++word) {
      const std::uint32_t token = blocks[lane] * 4 + word;
      if (token < vocabulary) race.consider(static_cast<std::int32_t>(token), words[word][lane]);
    }
  }
}

bool any_weight(std::span<const float> weights) {
  std::uint32_t live = 0;
  for (const float weight : weights) live |= weight > 0 ? 1U : 0U;
  return live != 0;
}

}  // namespace

Cut cut_top_k(std::span<const float> scaled, int top_k, std::vector<Candidate>& candidates) {
  return find_cut(scaled, static_cast<double>(top_k), CountMeasure{scaled}, candidates);
}

Cut cut_top_p(std::span<const float> scaled, std::span<const float> weights, float top_p, std::vector<Candidate>& candidates) {
  const MassMeasure measure{scaled, weights};
  return find_cut(scaled, static_cast<double>(top_p) * static_cast<double>(measure.above(-kDeepest)), measure, candidates);
}

std::int32_t draw(std::span<const float> scaled, std::span<const float> weights, std::int32_t best, SampleKey key) {
  Race race(scaled, weights);
  const std::uint32_t first = static_cast<std::uint32_t>(best) / 4;
  run_blocks(std::span(&first, 1), key, weights.size(), race);
  std::uint32_t pending[kBlocks];
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < weights.size(); begin += 4 * kBlocks) {
    const auto stretch = weights.subspan(begin, std::min<std::size_t>(4 * kBlocks, weights.size() - begin));
    if (!any_weight(stretch)) continue;
    for (std::size_t i = 0; i < stretch.size(); i += 4) {
      if (!any_weight(stretch.subspan(i, std::min<std::size_t>(4, stretch.size() - i)))) continue;
      pending[count++] = static_cast<std::uint32_t>((begin + i) / 4);
      if (count < kBlocks) continue;
      run_blocks(pending, key, weights.size(), race);
      count = 0;
    }
  }
  run_blocks(std::span(pending, count), key, weights.size(), race);
  return race.winner();
}

double gumbel_noise(SampleKey key, std::int32_t token) {
  const auto id = static_cast<std::uint32_t>(token);
  const auto words = philox4x32_10({id / 4, key.position, key.choice, 0},
                                   {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  return gumbel_from_word(words[id % 4]);
}

}  // namespace lynx::model
