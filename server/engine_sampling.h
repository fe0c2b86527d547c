#pragma once

// What is read off a pass's logits: next tokens, and the scores of prompt tokens. Every row is independent, so the rows are spread
// over the thread pool.

#include <span>
#include <vector>

#include "device/thread_pool.h"
#include "model/sampler.h"
#include "scheduler/batcher.h"
#include "server/engine_pass.h"

namespace lynx::server {

/// One reading of one row of logits.
struct LogitReading {
  Generation* generation;
  int choice;
  int logit_row;
  int scored_position;   ///< −1: choose the choice's next token; else: the log probability of the prompt's token there.
  int ahead = 0;         ///< So many drafts come before the chosen token.
  bool draft = false;    ///< It is chosen on the Anchors, and a draft itself.
  TokenOutput output{};  ///< The result.
};

/// Lists the readings of a pass, in the order of its items, prompt positions ascending.
std::vector<LogitReading> list_readings(std::span<const scheduler::PassItem> pass, const Generations& generations);

/// Fills in the results from logits [rows][vocabulary].
class LogitReader {
 public:
  LogitReader(int vocabulary, ThreadPool* pool);
  void read(std::span<LogitReading> readings, const float* logits);

 private:
  void read_one(LogitReading& reading, const float* logits, model::SampleScratch& scratch) const;

  int vocabulary_;
  ThreadPool* pool_;
  std::vector<model::SampleScratch> scratch_;  ///< Per worker.
};

}  // namespace lynx::server
