#pragma once

// How many tokens are worth drafting, from how drafts of this model have fared so far. Pure: no clock, no I/O.
//
// A draft behind right ones is right with a chance that is estimated from verifications, recent ones counting more. Drafting costs
// rows of passes that others share, and verifying costs one more: a draft is made while the chance that all before it and itself
// are right is worth that. A model that drafts badly gets few drafts and then none, but for a small try now and then. The time
// until the Residuals are there needs no place here: when they are, drafting ends.

#include <cstdint>

namespace lynx::scheduler {

/// Not thread-safe.
class DraftBudget {
 public:
  /// `most` > 0: never more than so many.
  explicit DraftBudget(int most) : most_(most) {}

  /// For the next request's choices, each. 0: none.
  int next();

  /// A verification confirmed the first `accepted` of `drafted` > 0 drafts.
  void verified(int drafted, int accepted);

  /// The chance that a draft behind right ones is right.
  double acceptance() const { return right_ / tried_; }

 private:
  int most_;
  double right_ = 9.6;  ///< As if 96 of a hundred had been right (docs/benchmarks/planes.md: 26.4 of 32), until it is known better.
  double tried_ = 10.0;
  std::uint32_t refused_ = 0;
};

}  // namespace lynx::scheduler
