#include "server/engine_sampling.h"

namespace lynx::server {

std::vector<LogitReading> list_readings(std::span<const scheduler::PassItem> pass, const Generations& generations) {
  std::vector<LogitReading> readings;
  int row = 0;
  for (const scheduler::PassItem& item : pass) {
    Generation& generation = *generations.at(item.sequence.request);
    const int choice = item.sequence.choice;
    const int end = item.start + item.count;
    if (item.kind == scheduler::PassKind::kDraft) {
      readings.push_back({&generation, choice, row++, -1, static_cast<int>(generation.at(choice).drafts.size()), true});
      continue;
    }
    if (item.kind == scheduler::PassKind::kVerify) {
      for (int ahead = 0; ahead < item.count; ++ahead) readings.push_back({&generation, choice, row++, -1, ahead});
      continue;
    }
    for (int position = end - item.logit_rows; position < end; ++position, ++row) {
      if (generation.scores_prompt() && position + 1 < generation.prompt_tokens()) {
        readings.push_back({&generation, choice, row, position + 1});
      }
      if (position + 1 != generation.known_tokens(choice) || generation.request.max_tokens == 0) continue;
      if (item.kind != scheduler::PassKind::kPrefill) {
        readings.push_back({&generation, choice, row, -1});
        continue;
      }
      // The first tokens of all choices are chosen from the same logits.
      for (int each = 0; each < generation.request.choices; ++each) readings.push_back({&generation, each, row, -1});
    }
  }
  return readings;
}

LogitReader::LogitReader(int vocabulary, ThreadPool* pool)
    : vocabulary_(vocabulary), pool_(pool), scratch_(static_cast<std::size_t>(pool->size())) {}

void LogitReader::read(std::span<LogitReading> readings, const float* logits) {
  if (readings.size() <= 1) {
    for (LogitReading& reading : readings) read_one(reading, logits, scratch_[0]);
    return;
  }
  const auto stride = scratch_.size();
  pool_->run([&](int worker) {
    for (auto i = static_cast<std::size_t>(worker); i < readings.size(); i += stride) {
      read_one(readings[i], logits, scratch_[static_cast<std::size_t>(worker)]);
    }
  });
}

void LogitReader::read_one(LogitReading& reading, const float* logits, model::SampleScratch& scratch) const {
  const auto size = static_cast<std::size_t>(vocabulary_);
  const std::span<const float> row(logits + static_cast<std::size_t>(reading.logit_row) * size, size);
  const GenerateRequest& request = reading.generation->request;
  TokenOutput& output = reading.output;
  int top = request.top_logprobs;
  if (reading.scored_position >= 0) {
    output.id = request.prompt[static_cast<std::size_t>(reading.scored_position)];
    top = request.prompt_top_logprobs;
  } else {
    const GenerationChoice& choice = reading.generation->at(reading.choice);
    std::vector<std::int32_t> with_drafts;
    std::span<const std::int32_t> generated = choice.tokens;
    if (reading.ahead > 0) {
      with_drafts = choice.tokens;
      with_drafts.insert(with_drafts.end(), choice.drafts.begin(), choice.drafts.begin() + reading.ahead);
      generated = with_drafts;
    }
    const model::SampleKey key{.seed = *request.sampling.seed,
                               .choice = static_cast<std::uint32_t>(reading.choice),
                               .position = static_cast<std::uint32_t>(generated.size())};
    output.id = model::sample(row, request.sampling, {request.prompt, generated, reading.generation->end_tokens}, key, scratch);
  }
  if (reading.draft) return;  // Its log probability would be another's.
  if (top >= 0) output.logprob = model::token_logprob(row, output.id, top, &output.top).logprob;
}

}  // namespace lynx::server
