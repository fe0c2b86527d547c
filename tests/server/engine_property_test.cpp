// Random requests, pools too small for them, cancellations: every answer equals what the definitions give for the request alone.

#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/server/engine_fake.h"
#include "tests/server/engine_reference.h"
#include "tests/server/engine_world.h"

using namespace lynx;
using namespace lynx::server;

namespace {

struct Sent {
  GenerateRequest request;
  std::shared_ptr<CollectingSink> sink;
  bool cancelled = false;
};

struct Seen {
  std::uint64_t preemptions = 0;
  int cancelled = 0;
  int answered = 0;
  int refused = 0;
};

std::string run_world(unsigned seed, ThreadPool& pool, Seen& seen) {
  World world(seed);
  const FakeSizes sizes = world.sizes();
  const auto engine = make_fake_engine(world.options(), sizes, &pool);
  const int context = engine->max_model_len();
  std::vector<Sent> sent;
  for (int i = 0; i < 14; ++i) {
    Sent one{world.request(i), nullptr};
    one.sink = std::make_shared<CollectingSink>(one.request.choices);
    if (const Status status = engine->submit(one.request, one.sink); !status.ok()) {
      if (status.code() != Code::kResourceExhausted) return "refused: " + status.to_string();
      ++seen.refused;
      continue;
    }
    sent.push_back(std::move(one));
    if (world.one_in(4)) {
      Sent& victim = sent[static_cast<std::size_t>(world.upto(static_cast<int>(sent.size())))];
      if (world.one_in(2)) victim.sink->wait_for_tokens(1 + world.upto(20));
      engine->cancel(victim.request.request_id);
      victim.cancelled = true;
    }
  }
  for (const Sent& one : sent) {
    const Collected got = one.sink->wait();
    const Collected expected = reference_answer(one.request, context);
    const bool cancelled = got.error.code() == Code::kCancelled;
    if (cancelled && !one.cancelled) return one.request.request_id + ": cancelled by nobody";
    const std::string wrong = cancelled ? not_a_prefix(expected, got) : difference(expected, got);
    if (!wrong.empty()) return one.request.request_id + ": " + wrong;
    ++(cancelled ? seen.cancelled : seen.answered);
  }
  const EngineStats stats = engine->stats();
  if (stats.free_blocks != stats.total_blocks || stats.running != 0 || stats.waiting != 0) return "something is left";
  seen.preemptions += stats.preemptions_total;
  return {};
}

}  // namespace

TEST_CASE("whatever runs beside a request, is preempted or is cancelled: its answer is that of the request alone") {
  ThreadPool pool(2);
  Seen seen;
  if (const char* seed = std::getenv("LYNX_SEED")) {
    CHECK(run_world(static_cast<unsigned>(std::atol(seed)), pool, seen) == "");
    return;
  }
  for (unsigned seed = 0; seed < 250; ++seed) {
    const std::string failure = run_world(seed, pool, seen);
    if (!failure.empty()) FAIL("seed " << seed << ": " << failure << " (LYNX_SEED=" << seed << " runs it alone)");
  }
  CHECK(seen.preemptions > 100);
  CHECK(seen.cancelled > 50);
  CHECK(seen.answered > 1000);
  CHECK(seen.refused > 50);
}
