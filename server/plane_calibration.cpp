// Which layers' K has outlier channels that 4 bits blur. Judged by what a draft feels: the divergence of its predictions, not the
// error of the values (docs/plane_format.md).

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/log.h"
#include "model/plane_profile_file.h"
#include "quant/plane_codec.h"
#include "server/plane_session.h"
#include "server/plane_tools.h"

namespace lynx::server {
namespace {

using quant::plane_size;

constexpr std::size_t kCandidates = 8;  // That are tried again beside those already chosen.
constexpr double kLeastGain = 0.01;     // Of the divergence without any wide layer; less is not worth a layer's bits.

/// The divergence of every layer's own choice, summed over all texts.
struct Trials {
  std::vector<ViewDifference> with;  ///< [layers]: this layer wide too.
  ViewDifference without;

  double gain(int layer) const { return without.divergence - with[plane_size(layer)].divergence; }
};

/// What follows each text, chosen once.
using Continuations = std::vector<Continuation>;

/// Runs the texts with `chosen`, and with each of `candidates` beside it.
Trials try_layers(PlaneTrial& trial, const PlaneSession& session, const quant::PlaneProfile& chosen,
                  const std::vector<int>& candidates, int length, Continuations* continuations) {
  Trials trials;
  trials.with.resize(chosen.wide_k.size());
  for (std::size_t i = 0; i < session.texts.size(); ++i) {
    trial.set_prompt(session.texts[i].tokens);
    trial.code(chosen);
    if (continuations->size() == i) continuations->push_back(trial.continue_exactly(trial_sampling(false, i), length));
    const Continuation& text_behind = (*continuations)[i];
    trial.expand(PlaneView::kAnchor);
    trials.without += trial.compare(text_behind);
    for (const int layer : candidates) {
      trial.code_k(layer, true);
      trial.expand_k(layer);
      trials.with[plane_size(layer)] += trial.compare(text_behind);
      trial.code_k(layer, false);
      trial.expand_k(layer);
    }
    log_info("text measured", {{"file", session.texts[i].path}, {"candidates", candidates.size()}});
  }
  return trials;
}

/// Bits a value of all texts' Anchors, everything counted.
double anchor_bits(const PlaneTrial& trial, const PlaneSession& session, const quant::PlaneProfile& profile) {
  PlaneSizes all;
  for (const PlaneText& text : session.texts) all += trial.anchor_sizes(static_cast<int>(text.tokens.size()), profile);
  return PlaneSizes::bits(all.anchor, all.values);
}

std::string path_for(const PlaneToolOptions& options, const CalibrationOptions& calibration) {
  return calibration.output.empty() ? model::profile_path_beside(options.model) : calibration.output;
}

Status write_profile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) return invalid_argument(path + ": cannot be written");
  return {};
}

}  // namespace

Result<std::string> calibrate_planes(const PlaneToolOptions& options, const CalibrationOptions& calibration) {
  LYNX_TRY(const PlaneSession session, PlaneSession::open(options));
  LYNX_TRY(PlaneTrial trial, session.make_trial(options));
  const model::ModelConfig& config = session.model->config();
  model::PlaneProfileFile file{config.name, config.layers, {std::vector<bool>(plane_size(config.layers))}};
  std::vector<bool>& wide = file.profile.wide_k;
  std::vector<int> candidates(plane_size(config.layers));
  for (int layer = 0; layer < config.layers; ++layer) candidates[plane_size(layer)] = layer;

  if (const double bits = anchor_bits(trial, session, file.profile); bits > calibration.most_bits) {
    return invalid_argument(fmt::format(
        "the texts are too short: without any wide layer their Anchors take {:.2f} bits a value already, since a text's last "
        "block travels raw; give longer ones (2,000 tokens or more) or --most-bits of more than {}",
        bits, calibration.most_bits));
  }
  std::string out = "| layers with wide K | bits a value | KL, nats |\n|---|---:|---:|\n";
  std::string names = "none";
  double first = 0;
  Continuations continuations;
  while (!candidates.empty()) {
    const Trials trials = try_layers(trial, session, file.profile, candidates, options.continuation, &continuations);
    if (trials.without.rows == 0) return invalid_argument("the model ends every text at once: nothing can be measured");
    const double now = trials.without.divergence;
    if (first == 0) first = now;
    out += fmt::format("| {} | {:.3f} | {:.5f} |\n", names, anchor_bits(trial, session, file.profile), now / trials.without.rows);
    std::sort(candidates.begin(), candidates.end(), [&](int a, int b) { return trials.gain(a) > trials.gain(b); });
    const int best = candidates.front();
    if (trials.gain(best) <= kLeastGain * first) break;
    wide[plane_size(best)] = true;
    if (anchor_bits(trial, session, file.profile) > calibration.most_bits) {
      wide[plane_size(best)] = false;
      break;
    }
    names = (names == "none" ? "" : names + ", ") + std::to_string(best);
    candidates.erase(candidates.begin());
    candidates.resize(std::min(candidates.size(), kCandidates));
  }
  const std::string path = path_for(options, calibration);
  LYNX_RETURN_IF_ERROR(write_profile(path, model::plane_profile_text(file)));
  return out + fmt::format("\nWritten to {}.\n", path);
}

}  // namespace lynx::server
