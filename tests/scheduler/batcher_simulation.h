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
  int anchored = 0;
  int anchors_lost = 0;  ///< With drafts on them.
  int drafts = 0;
  int accepted = 0;
  int rolled_back = 0;
  int left_out = 0;             ///< Drafts that found no place in their verification.
  int verified_in_replay = 0;   ///< Replays of a choice that has drafts.
  int drafts_beside_steps = 0;  ///< Passes that draft and decode.
  int taken_back = 0;           ///< Blocks of drafts.
};

class BatcherSimulation {
 public:
  /// `drafts`: all prompts are remote ones, and their caches come in two steps.
  BatcherSimulation(unsigned seed, bool drafts, SimulationCoverage* coverage);

  /// Runs until all requests ended and were released; "" or the broken invariant.
  std::string run();

 private:
  struct Choice {
    int target = 0;  ///< It ends after this many tokens.
    int generated = 0;
    int computed = 0;
    int drafted = 0;
    int draft_computed = 0;
    bool ended = false;
    /// By generated token: its KV is there, computed behind right tokens against the whole cache.
    std::vector<bool> right{};
  };
  struct Live {
    RequestShape shape;
    std::vector<Choice> choices{};
    bool running = false;
    bool was_admitted = false;
    bool awaiting = false;  ///< Its remote prompt's cache.
    bool drafting = false;  ///< Its Anchors are there.
    int most_drafts = 0;
    int holder = 0;  ///< The choice whose blocks the cache goes to.
    int prompt_computed = 0;
    std::vector<int> scored{};  ///< How often each prompt position gave logits.
  };

  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  void check(bool holds, const std::string& what);
  void arrive();
  void cancel_some();
  void step();
  void on_take_back(SequenceId id);
  void check_no_spare_blocks();
  void on_preempt(RequestId id);
  void on_admit(RequestId id);
  void check_pass(const std::vector<PassItem>& pass);
  void begin_item(const PassItem& item);
  void end_item(const PassItem& item);
  void remote_progress();
  void first_tokens(RequestId id);
  void cache_arrives(RequestId id);
  bool only_awaits() const;
  void share_prompt(RequestId id);
  void anchors_arrive(RequestId id);
  void lose_anchors(RequestId id);
  static void drop_drafts(Live& live);
  void begin_draft(const PassItem& item, const Live& live, Choice& choice);
  void begin_verification(const PassItem& item, const Live& live, const Choice& choice);
  void end_draft(const PassItem& item, Choice& choice);
  void end_verification(const PassItem& item);
  void check_draft_states();
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
  bool remote_;        ///< Prompts are computed elsewhere,
  bool drafts_;        ///< and their caches come in two steps.
  int right_percent_;  ///< Of drafts behind right ones.
  int cancel_percent_;
  int arrivals_left_;
  RequestId next_id_ = 1;
  std::map<RequestId, Live> live_;
  std::deque<SequenceId> to_release_;
  int steps_without_pass_ = 0;
  std::string failure_;
};

}  // namespace lynx::scheduler
