#pragma once

// A model, its texts as tokens, and a PlaneTrial that holds the longest: what both plane tools begin with.

#include <memory>
#include <string>
#include <vector>

#include "device/thread_pool.h"
#include "model/model.h"
#include "server/plane_tools.h"
#include "server/plane_trial.h"

namespace lynx::server {

struct PlaneText {
  std::string path;
  std::vector<std::int32_t> tokens;
};

struct PlaneSession {
  Isa isa = Isa::kPortable;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<model::Model> model;
  std::vector<PlaneText> texts;

  /// INVALID_ARGUMENT naming the text for one that is no UTF-8, fits into one block or does not fit into the model's context.
  static Result<PlaneSession> open(const PlaneToolOptions& options);
  /// Room for any of the texts.
  Result<PlaneTrial> make_trial(const PlaneToolOptions& options) const;
};

/// T 0.7, top-p 0.9; or greedy.
model::SamplingParams trial_sampling(bool greedy, std::size_t text);

}  // namespace lynx::server
