#pragma once

// A whole pair in virtual time: the real batchers with their transition table, the real ticket desk, KvSender, KvReceiver and push
// order, over a network and between nodes that fail. Modelled here: the two engines' loops and the control plane, in a few lines
// each.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kv/block_table.h"
#include "scheduler/batcher.h"
#include "scheduler/ticket_desk.h"
#include "tests/sim/world_plan.h"

namespace lynx::sim {

inline constexpr int kSimBlockTokens = 64;  ///< kv's own, which block tables count in.
inline constexpr int kSimLayers = 2;

struct PairCoverage {
  std::uint64_t finished = 0, failed = 0, cancelled = 0, ended_by_first_token = 0;
  std::uint64_t anchored = 0, anchors_lost = 0, drafts = 0, accepted = 0, rolled_back = 0, died_between = 0;
  std::uint64_t preempted_drafting = 0, taken_back = 0, cancelled_drafting = 0, arrived_drafting = 0;
  std::uint64_t arrived = 0, again = 0, preempted = 0, deaths = 0, sessions_lost = 0, retired_in_flight = 0;
};

class PairWorld {
 public:
  /// `two_steps`: caches of more than a block come as Anchors and Residuals, and tokens are drafted in between.
  PairWorld(std::uint32_t seed, bool two_steps, PairCoverage* coverage);
  ~PairWorld();

  /// Runs until every request ended and nothing is held any more; "" or the first broken rule.
  std::string run();

 private:
  class Decode;
  class Prefill;
  struct Ticket {
    std::uint64_t number = 0;
    std::uint64_t request = 0;  ///< Its content follows from it.
    int prompt_tokens = 0;
    bool cache = true;
    transport::TicketSecret secret{};
  };

  /// A unit of a prompt as it comes first, and whether a Residual follows: every third one comes in one step.
  transport::UnitKey first_unit(int prompt_tokens, int layer, int block, transport::Part part) const;
  static bool has_residual(const transport::UnitKey& first) { return first.plane == transport::Plane::kAnchor; }
  static transport::UnitKey residual_of(transport::UnitKey unit) {
    unit.plane = transport::Plane::kExactResidual;
    return unit;
  }

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  bool settled() const;
  std::string left_over() const;
  void arrive();
  void start_prefill(std::size_t index, NodeId successor_of);
  void kill_prefill(std::size_t index);
  void connect(std::size_t index);
  /// Over at both ends, each of which hears of it after a while.
  void end_session(server::SessionId session);

  // The control plane: in order, reliable, as long as the session lasts.
  void to_prefill(server::SessionId session, std::function<void(Prefill&)> message);
  void to_decode(server::SessionId session, std::function<void(Decode&)> message);

  struct Session {
    std::size_t index;
    int connected = 0;
    bool over = false;
  };

  bool two_steps_;
  Draw draw_;
  WorldPlan plan_;
  PairCoverage* coverage_;
  SimClock clock_;
  SimNetwork network_;
  std::unique_ptr<Decode> decode_;
  std::vector<std::unique_ptr<Prefill>> prefills_;
  std::vector<std::unique_ptr<Prefill>> dead_;  ///< Kept: late events name them.
  std::map<server::SessionId, Session> sessions_;
  server::SessionId next_session_ = 1;
  int to_arrive_ = 0;
  bool harmless_ = false;  ///< Nothing dies and nothing is silent for long: no request may fail.
  std::string failure_;
};

}  // namespace lynx::sim
