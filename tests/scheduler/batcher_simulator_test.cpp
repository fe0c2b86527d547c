#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/scheduler/batcher_simulation.h"

using namespace lynx::scheduler;

namespace {

constexpr unsigned kSeeds = 6000;
constexpr unsigned kDraftingSeeds = 4000;  ///< Behind the others.

}  // namespace

TEST_CASE("in thousands of random worlds no block is lost, every request ends and the order of arrival is kept") {
  SimulationCoverage coverage;
  if (const char* seed = std::getenv("LYNX_SEED")) {
    const auto number = static_cast<unsigned>(std::atol(seed));
    CHECK(BatcherSimulation(number, number >= kSeeds, &coverage).run() == "");
    return;
  }
  for (unsigned seed = 0; seed < kSeeds + kDraftingSeeds; ++seed) {
    const std::string failure = BatcherSimulation(seed, seed >= kSeeds, &coverage).run();
    if (!failure.empty()) FAIL("seed " << seed << ": " << failure << " (LYNX_SEED=" << seed << " runs it alone)");
  }
  // The worlds were not dull.
  CHECK(coverage.cancelled_in == std::set{RequestState::kQueued, RequestState::kPrefilling, RequestState::kAwaitingCache,
                                          RequestState::kDrafting, RequestState::kVerifying, RequestState::kDecoding,
                                          RequestState::kPreempted});
  CHECK(coverage.preemptions > 1000);
  CHECK(coverage.replays > 1000);
  CHECK(coverage.forks > 1000);
  CHECK(coverage.refused_capacity > 1000);
  CHECK(coverage.refused_queue > 1000);
  CHECK(coverage.finished > 10000);
  CHECK(coverage.waited_for_release > 1000);
  CHECK(coverage.arrived > 10000);
  CHECK(coverage.ended_before_arrival > 1000);
  CHECK(coverage.anchored > 10000);
  CHECK(coverage.anchors_lost > 1000);
  CHECK(coverage.drafts > 10000);
  CHECK(coverage.accepted > 3000);
  CHECK(coverage.rolled_back > 3000);
  CHECK(coverage.left_out > 1000);
  CHECK(coverage.verified_in_replay > 100);
  CHECK(coverage.drafts_beside_steps > 1000);
  CHECK(coverage.taken_back > 100);
}
