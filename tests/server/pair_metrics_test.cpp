#include "server/pair_metrics.h"

#include <string>

#include "tests/catch.h"

namespace lynx::server {

TEST_CASE("Residuals that a decode node took are counted apart from what came first") {
  RemotePromptsStats stats;
  stats.transfer.bytes_placed = 1000;
  stats.transfer.residual_bytes_placed = 3000;
  const std::string page = decode_pair_metrics(stats, {}, "ff", "progressive-exact");
  CHECK(page.find("\nlynx_transport_received_bytes_total 1000\n") != std::string::npos);
  CHECK(page.find("\nlynx_transport_received_residual_bytes_total 3000\n") != std::string::npos);
  CHECK(page.find("mode=\"progressive-exact\"") != std::string::npos);
  CHECK(prefill_pair_metrics({}, "ff").find("residual") == std::string::npos);
}

}  // namespace lynx::server
