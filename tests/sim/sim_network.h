#pragma once

// A network in virtual time: any number of nodes, each with a transport::Link, and all that goes wrong between them, drawn from a
// seed. Single-threaded: every handler call is an event of the clock.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "transport/link.h"

namespace lynx::sim {

/// Events in order of time; those of the same time in order of their making.
class SimClock {
 public:
  std::int64_t now_us() const { return now_us_; }
  void at(std::int64_t time_us, std::function<void()> event);
  void after(std::int64_t delay_us, std::function<void()> event) { at(now_us_ + delay_us, std::move(event)); }
  /// Runs the next event. False: there is none.
  bool step();

 private:
  struct Event {
    std::int64_t time_us;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(other.time_us, other.order) < std::tie(time_us, order); }
  };
  std::priority_queue<Event> events_;
  std::uint64_t next_order_ = 0;
  std::int64_t now_us_ = 0;
};

/// Per message, in thousandths.
struct SimFaults {
  int loss = 0;
  int duplicate = 0;
  int replay = 0;          ///< An earlier message, however old, comes once more.
  int damage_payload = 0;  ///< One bit of it.
  int damage_header = 0;
  int reorder = 0;  ///< It may overtake others of its lane, which UCX never lets it do.
  std::int64_t delay_us = 100;
  std::int64_t jitter_us = 0;     ///< Also reorders across lanes.
  std::int64_t bytes_per_ms = 0;  ///< From one node to another; 0: unlimited.
  std::int64_t sent_late_us = 0;  ///< on_sent() comes up to so long after the message left.
};

using NodeId = std::uint64_t;

/// Sees all traffic; the bytes are valid during the call.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void on_send(NodeId from, NodeId to, std::span<const std::byte> header, std::span<const std::byte> payload) = 0;
  /// Just before the handler of `to` is told. Possibly damaged.
  virtual void on_deliver(NodeId from, NodeId to, std::span<const std::byte> header, std::span<const std::byte> payload) = 0;
};

class SimLink;

class SimNetwork {
 public:
  /// The clock and the observer (may be null) are not owned.
  SimNetwork(SimClock* clock, std::uint32_t seed, const SimFaults& faults, SimObserver* observer);
  ~SimNetwork();

  /// A node's link; it lives as long as the network. A restarted node is a new one, but what is replayed to its earlier life comes
  /// to it (`successor_of`).
  transport::Link* add_node(NodeId* id, NodeId successor_of = 0);
  /// The node's process is gone. Its peers are told after `told_after_us`, or never (negative).
  void kill(NodeId id, std::int64_t told_after_us);
  /// Nothing passes between two nodes until this time; then what was held comes.
  void stall(NodeId a, NodeId b, std::int64_t until_us);
  /// Messages whose header it says yes to do not arrive; of those that chance loses it is not asked.
  void lose(std::function<bool(std::span<const std::byte> header)> wanted) { lose_ = std::move(wanted); }
  /// A message from nobody.
  void inject(NodeId to, transport::Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload);

  SimClock& clock() { return *clock_; }
  const SimFaults& faults() const { return faults_; }

 private:
  friend class SimLink;
  struct Message {
    NodeId from = 0;
    NodeId to = 0;
    transport::Lane lane = transport::Lane::kHigh;
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
  };

  bool happens(int thousandths) { return static_cast<int>(random_() % 1000) < thousandths; }
  std::int64_t upto(std::int64_t n) {
    return n <= 0 ? 0 : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n + 1));
  }
  std::int64_t departure(NodeId from, NodeId to, std::size_t bytes);
  std::int64_t stalled_until(NodeId a, NodeId b) const;
  void transmit(Message message);
  void deliver_at(std::int64_t time_us, Message message);
  void damage(std::vector<std::byte>& bytes);

  SimClock* clock_;
  std::mt19937 random_;
  SimFaults faults_;
  SimObserver* observer_;
  std::map<NodeId, std::unique_ptr<SimLink>> links_;
  std::map<NodeId, NodeId> successors_;
  NodeId next_node_ = 1;
  std::map<std::pair<NodeId, NodeId>, std::int64_t> wire_free_us_;
  std::map<std::tuple<NodeId, NodeId, transport::Lane>, std::int64_t> last_arrival_us_;
  std::map<std::pair<NodeId, NodeId>, std::int64_t> stalls_;  ///< Smaller id first.
  std::function<bool(std::span<const std::byte>)> lose_;
  std::deque<Message> past_;  ///< What may be replayed.
};

}  // namespace lynx::sim
