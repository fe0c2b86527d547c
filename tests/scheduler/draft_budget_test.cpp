#include "scheduler/draft_budget.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"

using namespace lynx::scheduler;

namespace {

/// After many verifications of `tried` drafts each, of which so many of a hundred are right behind right ones.
DraftBudget learned(int most, int percent, int tried, int verifications) {
  DraftBudget budget(most);
  std::mt19937 random(1);
  for (int i = 0; i < verifications; ++i) {
    int right = 0;
    while (right < tried && static_cast<int>(random() % 100) < percent) ++right;
    budget.verified(tried, right);
  }
  return budget;
}

}  // namespace

TEST_CASE("never more drafts than the cap, not even in a try") {
  for (const int most : {1, 2, 5, 16}) {
    for (const int percent : {0, 30, 60, 90, 100}) {
      DraftBudget budget = learned(most, percent, most, 200);
      int drafts = 0;
      for (int i = 0; i < 64; ++i) drafts = std::max(drafts, budget.next());
      INFO(most << " at most, " << percent << " % right: " << drafts);
      CHECK(drafts <= most);
      CHECK(drafts >= 1);  // Now and then even where it is hopeless.
      if (percent == 100) CHECK(drafts == most);
    }
  }
}

TEST_CASE("the better the model drafts, the more it may") {
  int last = 0;
  double acceptance = 0;
  for (int percent = 0; percent <= 100; percent += 5) {
    DraftBudget budget = learned(16, percent, 8, 400);
    INFO(percent << " %");
    CHECK(budget.acceptance() >= acceptance - 0.1);  // Estimated from the last twenty or so.
    CHECK(budget.acceptance() == Approx(percent / 100.0).margin(0.2));
    acceptance = budget.acceptance();
    const int drafts = budget.acceptance() < 0.5 ? 0 : budget.next();
    CHECK(drafts >= last - 3);
    last = std::max(last, drafts);
  }
  CHECK(last == 16);
}

// Exactly monotone in what it estimates.
TEST_CASE("one draft more that was right never lowers the number") {
  for (int steps = 0; steps < 40; ++steps) {
    int last = 0;
    for (int right = 0; right <= 8; ++right) {
      DraftBudget budget(16);
      for (int i = 0; i < steps; ++i) budget.verified(8, right);
      const int drafts = budget.next();
      INFO(steps << " times " << right << " of 8 right: " << drafts << " after " << last);
      CHECK(drafts >= last);
      last = drafts;
    }
  }
}

TEST_CASE("a model that drafts badly is left in peace but for a small try now and then, and recovers") {
  DraftBudget budget = learned(16, 0, 4, 100);
  CHECK(budget.acceptance() < 0.05);
  int tried = 0;
  int requests = 0;
  for (; requests < 160; ++requests) tried += budget.next();
  CHECK(tried > 0);
  CHECK(tried <= requests / 4);
  // From now on everything is right.
  int until_recovered = 0;
  while (budget.acceptance() < 0.9) {
    REQUIRE(++until_recovered < 5000);
    if (const int drafts = budget.next(); drafts > 0) budget.verified(drafts, drafts);
  }
  CHECK(budget.next() >= 8);
}
