#include "server/metrics.h"

#include <string>

#include "tests/catch.h"

namespace lynx::server {

TEST_CASE("drafts are counted, and their acceptance is shown by model once there is something to tell") {
  ServerMetrics metrics;
  metrics.set_model({.name = "tiny", .isa = "portable", .kv_block_tokens = 64});
  EngineStats stats;
  stats.draft_acceptance = 0.9;  // What is assumed before the first draft.
  const std::string before = metrics.serialize(&stats, {});
  CHECK(before.find("\nlynx_draft_tokens_total 0\n") != std::string::npos);
  CHECK(before.find("\nlynx_draft_accepted_tokens_total 0\n") != std::string::npos);
  CHECK(before.find("lynx_draft_acceptance") == std::string::npos);
  stats.drafted_tokens_total = 20;
  stats.accepted_tokens_total = 15;
  stats.draft_acceptance = 0.75;
  const std::string after = metrics.serialize(&stats, {});
  CHECK(after.find("\nlynx_draft_tokens_total 20\n") != std::string::npos);
  CHECK(after.find("\nlynx_draft_accepted_tokens_total 15\n") != std::string::npos);
  CHECK(after.find("\nlynx_draft_acceptance{engine=\"0\",model_name=\"tiny\"} 0.75\n") != std::string::npos);
  stats.draft_acceptance = 0.5;
  CHECK(metrics.serialize(&stats, {}).find("model_name=\"tiny\"} 0.5\n") != std::string::npos);
}

}  // namespace lynx::server
