#include "server/plane_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/log.h"
#include "model/plane_profile_file.h"
#include "server/plane_session.h"

namespace lynx::server {
namespace {

constexpr std::array kRunLengths = {8, 16, 32};
static_assert(kRunLengths.back() == kDraftTokens);

/// Mean accepted run for each of kRunLengths.
struct RunMeans {
  std::array<int, kRunLengths.size()> accepted{};
  std::array<int, kRunLengths.size()> drafts{};

  void add(const std::vector<DraftRun>& runs) {
    for (std::size_t i = 0; i < kRunLengths.size(); ++i) {
      for (const DraftRun& run : runs) {
        if (run.offered < kRunLengths[i]) continue;
        accepted[i] += std::min(run.accepted, kRunLengths[i]);
        ++drafts[i];
      }
    }
  }
  std::string cell(std::size_t i) const {
    return drafts[i] == 0 ? "–" : fmt::format("{:.2f}", static_cast<double>(accepted[i]) / drafts[i]);
  }
};

struct Measured {
  PlaneSizes k;
  PlaneSizes v;
  ViewDifference anchor;
  ViewDifference int8;
  RunMeans greedy;
  RunMeans sampled;

  PlaneSizes both() const {
    PlaneSizes sum = k;
    return sum += v;
  }
};

Result<Measured> measure_text(PlaneTrial& trial, const PlaneText& text, std::size_t index, const quant::PlaneProfile& profile,
                              int continuation, Measured* all) {
  Measured measured;
  trial.set_prompt(text.tokens);
  trial.code(profile);
  LYNX_TRY(measured.k, trial.measure(quant::PlanePart::kK));
  LYNX_TRY(measured.v, trial.measure(quant::PlanePart::kV));
  for (const bool greedy : {true, false}) {
    const Continuation text_behind = trial.continue_exactly(trial_sampling(greedy, index), continuation);
    trial.expand(PlaneView::kAnchor);
    measured.anchor += trial.compare(text_behind);
    trial.expand(PlaneView::kInt8);
    measured.int8 += trial.compare(text_behind);
    const std::vector<DraftRun> runs = trial.draft(text_behind);
    (greedy ? measured.greedy : measured.sampled).add(runs);
    (greedy ? all->greedy : all->sampled).add(runs);
  }
  all->k += measured.k;
  all->v += measured.v;
  all->anchor += measured.anchor;
  all->int8 += measured.int8;
  return measured;
}

std::string sizes_row(std::string_view name, const PlaneSizes& sizes) {
  const auto bits = [&](std::uint64_t bytes) { return PlaneSizes::bits(bytes, sizes.values); };
  return fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} |\n", name, bits(sizes.anchor), bits(sizes.int8), bits(sizes.exact));
}

std::string view_row(std::string_view name, const ViewDifference& view) {
  if (view.rows == 0) return fmt::format("| {} | – | – | 0 |\n", name);
  return fmt::format("| {} | {:.5f} | {:.4f} | {} |\n", name, view.divergence / view.rows,
                     static_cast<double>(view.agreed) / view.rows, view.rows);
}

std::string runs_row(std::string_view name, const RunMeans& runs) {
  return fmt::format("| {} | {} | {} | {} | {} |\n", name, runs.cell(0), runs.cell(1), runs.cell(2), runs.drafts[1]);
}

std::string text_row(const PlaneText& text, const Measured& measured) {
  const PlaneSizes sizes = measured.both();
  const auto bits = [&](std::uint64_t bytes) { return PlaneSizes::bits(bytes, sizes.values); };
  const std::string name = text.path.substr(text.path.find_last_of('/') + 1);
  return fmt::format("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.5f} | {} | {} |\n", name, text.tokens.size(), bits(sizes.anchor),
                     bits(sizes.int8), bits(sizes.exact), measured.anchor.divergence / std::max(measured.anchor.rows, 1),
                     measured.greedy.cell(1), measured.sampled.cell(1));
}

std::string tables(const Measured& all, const std::string& by_text) {
  std::string out = "| bits a value | Anchor | Anchor + int8 | Anchor + exact |\n|---|---:|---:|---:|\n";
  out += sizes_row("K", all.k) + sizes_row("V", all.v) + sizes_row("both", all.both());
  out += "\n| view | KL, nats | top-1 agreement | predictions |\n|---|---:|---:|---:|\n";
  out += view_row("anchor", all.anchor) + view_row("int8", all.int8);
  out += "\n| accepted of a draft of | 8 | 16 | 32 | drafts of 16 |\n|---|---:|---:|---:|---:|\n";
  out += runs_row("greedy", all.greedy) + runs_row("sampled, T 0.7, top-p 0.9", all.sampled);
  out += "\n| text | tokens | Anchor | Anchor + int8 | Anchor + exact | KL | of 16, greedy | of 16, sampled |\n";
  return out + "|---|---:|---:|---:|---:|---:|---:|---:|\n" + by_text;
}

std::string describe_profile(const quant::PlaneProfile& profile, int layers, const std::string& source) {
  std::string wide;
  for (int layer = 0; layer < layers; ++layer) {
    if (profile.is_wide_k(layer)) wide += fmt::format("{}{}", wide.empty() ? "" : ", ", layer);
  }
  return fmt::format("Profile: {}; layers with wide K: {}.\n\n", source, wide.empty() ? "none" : wide);
}

}  // namespace

Result<std::string> measure_planes(const PlaneToolOptions& options, const std::string& profile_path) {
  LYNX_TRY(PlaneSession session, PlaneSession::open(options));
  std::string source;
  LYNX_TRY(const auto profile, model::load_plane_profile(profile_path, options.model, session.model->config(), &source));
  LYNX_TRY(PlaneTrial trial, session.make_trial(options));
  Measured all;
  std::string by_text;
  for (std::size_t i = 0; i < session.texts.size(); ++i) {
    const PlaneText& text = session.texts[i];
    auto measured = measure_text(trial, text, i, profile, options.continuation, &all);
    if (!measured.ok()) return measured.status().with_context(text.path);
    by_text += text_row(text, *measured);
    log_info("text measured", {{"file", text.path}, {"tokens", text.tokens.size()}});
  }
  return describe_profile(profile, session.model->config().layers, source) + tables(all, by_text);
}

}  // namespace lynx::server
