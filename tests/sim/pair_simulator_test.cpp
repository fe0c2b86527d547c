#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/sim/pair_world.h"

namespace lynx::sim {
namespace {

constexpr std::uint32_t kSeeds = 2500;
constexpr std::uint32_t kTwoStepSeeds = 2500;  ///< Behind the others.

}  // namespace

TEST_CASE("In thousands of worlds a pair serves every request from its own cache, loses none for no reason and keeps nothing") {
  PairCoverage seen;
  // LYNX_SIM_SEED=123 replays one seed, LYNX_SIM_SEEDS=100000 runs as many.
  if (const char* const seed = std::getenv("LYNX_SIM_SEED")) {
    const auto number = static_cast<std::uint32_t>(std::atol(seed));
    CHECK(PairWorld(number, number > kSeeds, &seen).run() == "");
    return;
  }
  const char* const count = std::getenv("LYNX_SIM_SEEDS");
  for (std::uint32_t seed = 1; seed <= (count == nullptr ? kSeeds + kTwoStepSeeds : static_cast<std::uint32_t>(std::atol(count)));
       ++seed) {
    const std::string failure = PairWorld(seed, seed > kSeeds, &seen).run();
    if (!failure.empty()) FAIL("seed " << seed << ": " << failure << " (LYNX_SIM_SEED=" << seed << " runs it alone)");
  }
  // The worlds were not dull.
  CHECK(seen.finished > 5000);
  CHECK(seen.arrived > 5000);
  CHECK(seen.failed > 20);
  CHECK(seen.cancelled > 500);
  CHECK(seen.ended_by_first_token > 500);
  CHECK(seen.again > 300);
  CHECK(seen.preempted > 60);
  CHECK(seen.deaths > 500);
  CHECK(seen.sessions_lost > 500);
  CHECK(seen.retired_in_flight > 500);
  CHECK(seen.anchored > 1000);
  CHECK(seen.anchors_lost > 50);
  CHECK(seen.died_between > 20);
  CHECK(seen.drafts > 2000);
  CHECK(seen.accepted > 1000);
  CHECK(seen.rolled_back > 500);
  CHECK(seen.arrived_drafting > 500);
  CHECK(seen.preempted_drafting > 10);
  CHECK(seen.taken_back > 0);
  CHECK(seen.cancelled_drafting > 50);
}

}  // namespace lynx::sim
