#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/sim/transfer_world.h"

namespace lynx::sim {
namespace {

constexpr std::uint32_t kSeeds = 6000;
constexpr std::uint32_t kTwoStepSeeds = 3000;  ///< Behind the others.

// LYNX_SIM_SEED=123 replays one seed, LYNX_SIM_SEEDS=100000 runs as many.
std::uint32_t setting(const char* name, std::uint32_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : static_cast<std::uint32_t>(std::atol(value));
}

TEST_CASE("In thousands of bad networks every ticket arrives whole or ends, and nothing lands where it must not") {
  WorldCoverage seen;
  if (const std::uint32_t seed = setting("LYNX_SIM_SEED", 0); seed != 0) {
    CHECK(TransferWorld(seed, seed > kSeeds, &seen).run() == "");
    return;
  }
  for (std::uint32_t seed = 1; seed <= setting("LYNX_SIM_SEEDS", kSeeds + kTwoStepSeeds); ++seed) {
    CAPTURE(seed);
    const std::string failure = TransferWorld(seed, seed > kSeeds, &seen).run();
    if (!failure.empty()) FAIL("seed " << seed << ": " << failure << " (LYNX_SIM_SEED=" << seed << " runs it alone)");
  }
  if (std::getenv("LYNX_SIM_SEEDS") != nullptr) return;
  // The worlds were not dull.
  CHECK(seen.completed > 20000);
  CHECK(seen.aborted > 500);
  CHECK(seen.failed > 50);
  CHECK(seen.sessions_lost > 500);
  CHECK(seen.silences > 100);
  CHECK(seen.regions_reused > 1000);
  CHECK(seen.damaged > 1000);
  CHECK(seen.duplicate > 1000);
  CHECK(seen.stale > 1000);
  CHECK(seen.foreign > 1000);
  CHECK(seen.unplaced > 1000);
  CHECK(seen.asked_again > 1000);
  CHECK(seen.epochs > 500);
  CHECK(seen.resent > 1000);
  CHECK(seen.strangers > 1000);
  CHECK(seen.anchored > 5000);
  CHECK(seen.anchored_not_complete > 100);
  CHECK(seen.early > 1000);
  CHECK(seen.residuals_before_anchored > 1000);
}

}  // namespace
}  // namespace lynx::sim
