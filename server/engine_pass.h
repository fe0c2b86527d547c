#pragma once

// From a planned pass to the batch that a model computes: blocks reserved, shared ones copied, rows laid out.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "scheduler/batcher.h"
#include "server/engine_runner.h"
#include "server/generation.h"

namespace lynx::server {

/// The live requests of an engine by age.
using Generations = std::map<scheduler::RequestId, std::unique_ptr<Generation>>;

/// Reusable memory of the pass under way; the batch points into it and into the block tables.
class PassBuilder {
 public:
  /// Lays out `pass` and makes the copies it needs. INTERNAL when the pool has fewer blocks than were counted.
  Status build(std::span<const scheduler::PassItem> pass, const Generations& generations, Runner& runner);

  model::ForwardBatch batch() const {
    return {.tokens = tokens_, .spans = spans_, .logit_rows = logit_rows_, .profile = profile_.get()};
  }
  int rows() const { return static_cast<int>(tokens_.size()); }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<attention::QuerySpan> spans_;
  std::vector<int> logit_rows_;
  std::shared_ptr<const quant::PlaneProfile> profile_;  ///< By which all Anchors of a pass are read: all who draft have it.
};

}  // namespace lynx::server
