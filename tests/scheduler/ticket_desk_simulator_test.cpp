// The desk among prefill nodes, transfers and an engine that do anything at any time.

#include "scheduler/ticket_desk.h"

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/catch.h"

namespace lynx::scheduler {
namespace {

using Kind = TicketCommand::Kind;
using Commands = std::vector<TicketCommand>;

// Every command is held against what has gone before.
class DeskWorld {
 public:
  explicit DeskWorld(unsigned seed) : random_(seed), nodes_(1 + upto(4)), desk_({.nodes = nodes_, .max_attempts = 1 + upto(5)}) {}

  std::string run() {
    for (int step = 0; step < 400 && failure_.empty(); ++step) {
      now_us_ += upto(200000);
      act(step < 300);
      carry_out();
    }
    for (int step = 0; step < 20000 && failure_.empty() && !requests_.empty(); ++step) {
      now_us_ += upto(200000);
      act(false);
      carry_out();
      if (upto(3) == 0) end_one();
      carry_out();
    }
    check(requests_.empty(), "a request hangs");
    check(desk_.live() == 0, "the desk keeps a request");
    for (NodeIndex node = 0; node < nodes_; ++node) check(desk_.outstanding_tokens(node) == 0, "tokens stay outstanding");
    return failure_;
  }

  int arrived = 0;
  int failed = 0;
  int retried = 0;
  int anchors_lost = 0;
  int anchored_too_late = 0;

 private:
  struct Request {
    TicketNumber ticket = 0;  ///< Live transfer that may write to its blocks.
    NodeIndex node = -1;
    bool first_tokens = false;
    bool retiring = false;
    bool reads_anchors = false;  ///< The engine may.
    bool asked_to_let_go = false;
    bool failed = false;
    bool ended = false;
    int attempts = 0;
  };

  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  void check(bool holds, const char* what) {
    if (!holds && failure_.empty()) failure_ = what;
  }

  void act(bool arrivals) {
    switch (upto(9)) {
      case 0:
        if (arrivals) {
          requests_[next_];
          desk_.want(next_++, {.prompt_tokens = 1 + upto(1000), .cache = true}, now_us_, &out_);
        }
        return;
      case 1: return node_changes();
      case 2: return end_one();
      case 3: desk_.tick(now_us_, &out_); return;
      case 4: return let_go_of_one();
      default: return ticket_event();
    }
  }

  void node_changes() {
    const NodeIndex node = upto(nodes_);
    if (upto(8) == 0) {
      desk_.node_draining(node);
      draining_.insert(node);
      check(!desk_.node_is_up(node), "a node that drains is up");
    } else if (desk_.node_is_up(node) || (draining_.count(node) > 0 && upto(2) == 0)) {
      desk_.node_down(node, {Code::kUnavailable, "died"}, &out_);
      draining_.erase(node);
    } else {
      desk_.node_up(node, &out_);
      check(desk_.node_is_up(node) == (draining_.count(node) == 0), "up, or draining");
    }
  }

  void end_one() {
    if (requests_.empty()) return;
    auto it = std::next(requests_.begin(), upto(static_cast<int>(requests_.size())));
    if (it->second.ended) return;
    it->second.ended = true;
    it->second.reads_anchors = false;
    desk_.end(it->first, &out_);
  }

  // The engine's answer; it may come after it ended the request, too.
  void let_go_of_one() {
    for (auto& [id, request] : requests_) {
      if (!request.asked_to_let_go) continue;
      request.asked_to_let_go = request.reads_anchors = false;
      return desk_.anchors_let_go(id, &out_);
    }
  }

  // Something about a ticket that was issued once, live or long gone.
  void ticket_event() {
    if (issued_.empty()) return;
    const TicketNumber ticket = issued_[static_cast<std::size_t>(upto(static_cast<int>(issued_.size())))];
    switch (upto(6)) {
      case 5:
        anchored_too_late += static_cast<int>(retiring_.count(ticket));
        desk_.anchored(ticket, &out_);
        return;
      case 0: desk_.first_tokens(ticket, &out_); return;
      case 1: desk_.arrived(ticket, &out_); return;
      case 2:
        desk_.ticket_failed(
            ticket,
            {std::array{Code::kUnavailable, Code::kInvalidArgument, Code::kDataLoss}[static_cast<std::size_t>(upto(3))], "refused"},
            &out_);
        return;
      default:
        if (retiring_.erase(ticket) == 0) return;
        for (auto& [id, request] : requests_) {
          if (request.ticket == ticket) request.ticket = 0, request.retiring = false;
        }
        desk_.retired(ticket, now_us_, &out_);
        return;
    }
  }

  void carry_out() {
    const Commands commands = std::exchange(out_, {});
    for (const TicketCommand& command : commands) {
      const auto it = requests_.find(command.request);
      check(it != requests_.end(), "a command about a request that is over");
      if (!failure_.empty()) return;
      carry_out(command, it->second);
    }
  }

  void carry_out(const TicketCommand& command, Request& request) {
    switch (command.kind) {
      case Kind::kIssue:
        check(request.ticket == 0, "a second transfer into the same blocks");
        check(!request.ended && !request.failed, "a ticket for a request that is over");
        check(!request.reads_anchors, "a transfer may write what the engine reads");
        check(seen_.insert(command.ticket).second, "a ticket number twice");
        request.ticket = command.ticket;
        request.node = command.node;
        if (++request.attempts > 1) ++retried;
        issued_.push_back(command.ticket);
        return;
      case Kind::kCancel: check(request.ticket == command.ticket && !request.retiring, "cancelled, but not live"); return;
      case Kind::kRelease: check(request.ticket == command.ticket && !request.retiring, "released, but not live"); return;
      case Kind::kRetire:
        check(request.ticket == command.ticket && !request.retiring, "retired twice");
        check(!request.reads_anchors, "retired while the engine reads its Anchors");
        request.retiring = true;
        retiring_.insert(command.ticket);
        return;
      case Kind::kAnchored:
        check(request.ticket == command.ticket && !request.retiring && !request.ended, "anchored, but not live");
        check(!std::exchange(request.reads_anchors, true), "anchored twice");
        return;
      case Kind::kAnchorsLost:
        check(request.reads_anchors && !request.asked_to_let_go, "Anchors lost that were not there");
        request.asked_to_let_go = true;
        ++anchors_lost;
        return;
      case Kind::kArrived:
        check(!request.ended && !request.failed && !request.retiring && request.ticket == command.ticket, "arrived out of place");
        ++arrived;
        requests_.erase(command.request);
        return;
      case Kind::kReleased:
        check(request.ended && request.ticket == 0, "released while a transfer may write");
        requests_.erase(command.request);
        return;
      case Kind::kFailed:
        check(!request.ended && !request.failed && request.ticket == 0 && !command.why.ok(), "failed out of place");
        request.failed = true;
        ++failed;
        return;
    }
  }

  std::mt19937 random_;
  int nodes_;
  TicketDesk desk_;
  Commands out_;
  std::map<RequestNumber, Request> requests_;
  std::vector<TicketNumber> issued_;
  std::set<TicketNumber> seen_;
  std::set<TicketNumber> retiring_;
  std::set<NodeIndex> draining_;
  RequestNumber next_ = 1;
  std::int64_t now_us_ = 0;
  std::string failure_;
};

TEST_CASE("whatever nodes, transfers and the engine do, blocks are written by one live transfer and every request ends") {
  int arrived = 0;
  int failed = 0;
  int retried = 0;
  int anchors_lost = 0;
  int anchored_too_late = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    DeskWorld world(seed);
    const std::string failure = world.run();
    if (!failure.empty()) FAIL("seed " << seed << ": " << failure);
    arrived += world.arrived;
    failed += world.failed;
    retried += world.retried;
    anchors_lost += world.anchors_lost;
    anchored_too_late += world.anchored_too_late;
  }
  CHECK(arrived > 1000);
  CHECK(failed > 3000);
  CHECK(retried > 3000);
  CHECK(anchors_lost > 1000);
  CHECK(anchored_too_late > 1000);
}

}  // namespace
}  // namespace lynx::scheduler
