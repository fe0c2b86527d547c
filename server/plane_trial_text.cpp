// The text behind a prompt: continuations, and what the views make of them.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/plane_trial.h"

namespace lynx::server {
namespace {

using quant::plane_size;

struct RowDifference {
  double divergence;
  bool agrees;
};

/// Of two rows of logits. Finite ones: the model is a working one.
RowDifference compare_rows(std::span<const float> exact, std::span<const float> view) {
  const auto best = std::max_element(exact.begin(), exact.end());
  const auto view_best = std::max_element(view.begin(), view.end());
  double sum = 0;
  double view_sum = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const float x = exact[i] - *best;
    const float y = view[i] - *view_best;
    const double weight = std::exp(x);
    sum += weight;
    view_sum += std::exp(y);
    weighted += weight * static_cast<double>(x - y);
  }
  return {weighted / sum - std::log(sum) + std::log(view_sum), best - exact.begin() == view_best - view.begin()};
}

}  // namespace

/// A draft under way.
struct PlaneTrial::Draft {
  int start;  ///< The committed token that it begins with.
  std::vector<kv::BlockId> table;
  DraftRun run;
  bool wrong;
};

ViewDifference& ViewDifference::operator+=(const ViewDifference& other) {
  divergence += other.divergence;
  agreed += other.agreed;
  rows += other.rows;
  return *this;
}

void PlaneTrial::pass(std::span<const std::int32_t> tokens, std::span<const attention::QuerySpan> spans,
                      std::span<const int> logit_rows, float* logits) {
  model::ForwardBatch batch{.tokens = tokens, .spans = spans, .logit_rows = logit_rows};
  batch.anchors = &planes_;
  batch.profile = &profile_;
  model_->forward(batch, cache_, logits);
}

void PlaneTrial::set_prompt(std::span<const std::int32_t> prompt) {
  prompt_.assign(prompt.begin(), prompt.end());
  prompt_logits_.resize(plane_size(model_->config().vocabulary));
  const int tokens = static_cast<int>(prompt.size());
  for (int first = 0; first < tokens; first += model_->max_rows()) {
    const int rows = std::min(model_->max_rows(), tokens - first);
    const attention::QuerySpan span{exact_table_.data(), first, rows, 0};
    const int last = rows - 1;
    const bool ends = first + rows == tokens;
    pass(prompt.subspan(plane_size(first), plane_size(rows)), {&span, 1}, {&last, ends ? std::size_t{1} : std::size_t{0}},
         prompt_logits_.data());
  }
}

std::int32_t PlaneTrial::choose(std::span<const float> logits, const Continuation& continuation, int generated) {
  const model::SampleKey key{
      .seed = continuation.sampling.seed.value_or(0), .choice = 0, .position = static_cast<std::uint32_t>(generated)};
  const std::span<const std::int32_t> prefix = std::span(continuation.tokens).first(plane_size(generated));
  return model::sample(logits, continuation.sampling, {prompt_, prefix, model_->config().end_tokens}, key, scratch_);
}

Continuation PlaneTrial::continue_exactly(const model::SamplingParams& sampling, int tokens) {
  const std::size_t vocabulary = plane_size(model_->config().vocabulary);
  const std::vector<std::int32_t>& ends = model_->config().end_tokens;
  Continuation made{sampling, {}, {}};
  made.tokens.push_back(choose(prompt_logits_, made, 0));
  while (static_cast<int>(made.tokens.size()) < tokens && std::find(ends.begin(), ends.end(), made.tokens.back()) == ends.end()) {
    const int generated = static_cast<int>(made.tokens.size());
    const attention::QuerySpan span{exact_table_.data(), static_cast<int>(prompt_.size()) + generated - 1, 1, 0};
    const int row = 0;
    made.logits.resize(plane_size(generated) * vocabulary);
    float* logits = made.logits.data() + plane_size(generated - 1) * vocabulary;
    pass({&made.tokens.back(), 1}, {&span, 1}, {&row, 1}, logits);
    made.tokens.push_back(choose({logits, vocabulary}, made, generated));
  }
  return made;
}

ViewDifference PlaneTrial::compare(const Continuation& continuation) {
  const std::size_t vocabulary = plane_size(model_->config().vocabulary);
  const int coded = coded_blocks();
  std::vector<kv::BlockId> table(plane_size(kv::blocks_for(static_cast<int>(prompt_.size() + continuation.tokens.size()))));
  std::iota(table.begin(), table.begin() + coded, regions_.view);
  // Behind the coded blocks a tail of its own: the pass writes there what the view makes of the continuation.
  std::iota(table.begin() + coded, table.end(), regions_.tail);
  cache_.copy_block(coded, regions_.tail);

  const int rows = static_cast<int>(continuation.tokens.size()) - 1;
  const int step = std::min(model_->max_rows(), model_->max_logit_rows());
  std::vector<float> logits(plane_size(step) * vocabulary);
  std::vector<int> logit_rows(plane_size(step));
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  std::vector<RowDifference> differences(plane_size(std::max(rows, 0)));
  for (int first = 0; first < rows; first += step) {
    const int count = std::min(step, rows - first);
    const attention::QuerySpan span{table.data(), static_cast<int>(prompt_.size()) + first, count, 0};
    pass(std::span(continuation.tokens).subspan(plane_size(first), plane_size(count)), {&span, 1},
         std::span(logit_rows).first(plane_size(count)), logits.data());
    pool_->for_each(count, [&](int row) {
      const float* exact = continuation.logits.data() + plane_size(first + row) * vocabulary;
      differences[plane_size(first + row)] =
          compare_rows({exact, vocabulary}, {logits.data() + plane_size(row) * vocabulary, vocabulary});
    });
  }
  ViewDifference all;
  for (const RowDifference& row : differences) all += {row.divergence, row.agrees ? 1 : 0, 1};
  return all;
}

std::vector<PlaneTrial::Draft> PlaneTrial::begin_drafts(const Continuation& continuation) {
  const int prompt = static_cast<int>(prompt_.size());
  const int last = static_cast<int>(continuation.tokens.size()) - 1;
  std::vector<Draft> drafts;
  kv::BlockId free = regions_.drafts;
  for (int start = 0; start < last; start += kDraftStride) {
    Draft draft{start, {}, {0, std::min(kDraftTokens, last - start)}, false};
    const int kept = (prompt + start) / kv::kBlockTokens;
    draft.table.assign(exact_table_.begin(), exact_table_.begin() + kept);
    cache_.copy_block(kept, free);
    for (int i = 0; i < kDraftBlocks; ++i) draft.table.push_back(free++);
    drafts.push_back(std::move(draft));
  }
  return drafts;
}

std::vector<DraftRun> PlaneTrial::draft(const Continuation& continuation) {
  const int prompt = static_cast<int>(prompt_.size());
  const std::size_t vocabulary = plane_size(model_->config().vocabulary);
  std::vector<Draft> drafts = begin_drafts(continuation);
  std::vector<float> logits(drafts.size() * vocabulary);
  for (int step = 0; step < kDraftTokens; ++step) {
    std::vector<Draft*> open;
    std::vector<std::int32_t> tokens;
    std::vector<attention::QuerySpan> spans;
    std::vector<int> rows;
    for (Draft& draft : drafts) {
      if (draft.wrong || step >= draft.run.offered) continue;
      const int row = static_cast<int>(rows.size());
      open.push_back(&draft);
      rows.push_back(row);
      // A draft goes on only while it is right, so its tokens are those of the continuation; its KV is its own.
      tokens.push_back(continuation.tokens[plane_size(draft.start + step)]);
      spans.push_back({draft.table.data(), prompt + draft.start + step, 1, row, coded_blocks()});
    }
    if (open.empty()) break;
    pass(tokens, spans, rows, logits.data());
    for (std::size_t i = 0; i < open.size(); ++i) {
      const int next = open[i]->start + step + 1;
      const std::int32_t token = choose({logits.data() + i * vocabulary, vocabulary}, continuation, next);
      open[i]->wrong = token != continuation.tokens[plane_size(next)];
      if (!open[i]->wrong) ++open[i]->run.accepted;
    }
  }
  std::vector<DraftRun> runs;
  for (const Draft& draft : drafts) runs.push_back(draft.run);
  return runs;
}

}  // namespace lynx::server
