#pragma once

// One seeded run of the batcher in a world of arrivals, endings and cancellations, with real block tables beside its counts. Every
// step checks the invariants; the first broken one is `failure`.

#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/batcher.h"
#include "tests/scheduler/block_model.h"

namespace lynx::scheduler {

/// What a set of runs has seen, so that a test can require that nothing interesting was missed.
struct SimulationCoverage {
  std::set<RequestState> cancelled_in;
  int preemptions = 0;
  int replays = 0;
  int forks = 0;
  int refused_capacity = 0;
  int refused_queue = 0;
  int finished = 0;
  int waited_for_release = 0;
  int arrived = 0;               ///< Caches of remote prompts.
  int ended_before_arrival = 0;  ///< Requests whose first tokens were all.
};

class BatcherSimulation {
 public:
  BatcherSimulation(unsigned seed, SimulationCoverage* coverage);

  /// Runs until all requests ended and were released; "" or the broken invariant.
  std::string run();

 private:
  struct Choice {
    int target = 0;  ///< It ends after this many tokens.
    int generated = 0;
    int computed = 0;
    bool ended = false;
  };
  struct Live {
    RequestShape shape;
    std::vector<Choice> choices{};
    bool running = false;
    bool was_admitted = false;
    bool awaiting = false;  ///< Its remote prompt's cache.
    int holder = 0;         ///< The choice whose blocks the cache goes to.
    int prompt_computed = 0;
    std::vector<int> scored{};  ///< How often each prompt position gave logits.
  };

  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  void check(bool holds, const std::string& what);
  void arrive();
  void cancel_some();
  void step();
  void on_preempt(RequestId id);
  void on_admit(RequestId id);
  void check_pass(const std::vector<PassItem>& pass);
  void begin_item(const PassItem& item);
  void end_item(const PassItem& item);
  void remote_progress();
  void first_tokens(RequestId id);
  void cache_arrives(RequestId id);
  bool only_awaits() const;
  void choose_token(RequestId id, int choice);
  void end_request(RequestId id);
  void release(SequenceId id);
  void release_delayed(int count);
  void check_blocks();

  std::mt19937 random_;
  SimulationCoverage* coverage_;
  BatcherLimits limits_;
  Batcher batcher_;
  BlockModel blocks_;
  bool delayed_release_;
  bool remote_;  ///< Prompts are computed elsewhere.
  int cancel_percent_;
  int arrivals_left_;
  RequestId next_id_ = 1;
  std::map<RequestId, Live> live_;
  std::deque<SequenceId> to_release_;
  int steps_without_pass_ = 0;
  std::string failure_;
};

}  // namespace lynx::scheduler
