#include "scheduler/draft_budget.h"

#include <algorithm>

namespace lynx::scheduler {
namespace {

constexpr double kForget = 0.95;         ///< Weight of what was known at each verification.
constexpr double kLeastWorth = 0.2;      ///< Chance of being committed below which a draft is not made.
constexpr double kHopeless = 0.5;        ///< Acceptance below which nothing is drafted,
constexpr std::uint32_t kTryEvery = 16;  ///< but for one request in so many,
constexpr int kTry = 2;                  ///< with so many drafts.

}  // namespace

int DraftBudget::next() {
  const double chance = acceptance();
  if (chance < kHopeless) return ++refused_ % kTryEvery == 0 ? std::min(kTry, most_) : 0;
  int drafts = 0;
  for (double all_right = chance; drafts < most_ && all_right >= kLeastWorth; all_right *= chance) ++drafts;
  return drafts;
}

void DraftBudget::verified(int drafted, int accepted) {
  right_ = right_ * kForget + accepted;
  tried_ = tried_ * kForget + (accepted < drafted ? accepted + 1 : accepted);
}

}  // namespace lynx::scheduler
