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

// Prefill nodes, transfers and an engine that do anything at any time; every command is held against what has gone before.
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
    if (desk_.node_is_up(node)) {
      desk_.node_down(node, {Code::kUnavailable, "died"}, &out_);
    } else {
      desk_.node_up(node, &out_);
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
  RequestNumber next_ = 1;
  std::int64_t now_us_ = 0;
  std::string failure_;
};

std::vector<Kind> kinds(const Commands& commands) {
  std::vector<Kind> list;
  for (const TicketCommand& command : commands) list.push_back(command.kind);
  return list;
}

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

TEST_CASE("the node with the fewest outstanding prompt tokens is chosen, and its load falls with the first tokens") {
  TicketDesk desk({.nodes = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.node_up(1, &out);
  desk.want(1, {.prompt_tokens = 1000}, 0, &out);
  desk.want(2, {.prompt_tokens = 10}, 0, &out);
  desk.want(3, {.prompt_tokens = 10}, 0, &out);
  REQUIRE(kinds(out) == std::vector{Kind::kIssue, Kind::kIssue, Kind::kIssue});
  CHECK(out[0].node == 0);
  CHECK(out[1].node == 1);
  CHECK(out[2].node == 1);
  desk.first_tokens(out[0].ticket, &out);
  CHECK(desk.outstanding_tokens(0) == 0);
  CHECK(desk.outstanding_tokens(1) == 20);
  CHECK(desk.awaits_cache(0));
  CHECK_FALSE(desk.awaits_cache(1));
  desk.arrived(out[0].ticket, &out);
  CHECK_FALSE(desk.awaits_cache(0));
}

TEST_CASE("a request of a node that died goes to another one once its transfer is retired") {
  TicketDesk desk({.nodes = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.want(1, {.prompt_tokens = 5}, 0, &out);
  const TicketNumber first = out.at(0).ticket;
  desk.node_up(1, &out);
  out.clear();
  desk.node_down(0, {Code::kUnavailable, "gone"}, &out);
  REQUIRE(kinds(out) == std::vector{Kind::kRetire});
  out.clear();
  desk.retired(first, 0, &out);
  REQUIRE(kinds(out) == std::vector{Kind::kIssue});
  CHECK(out[0].node == 1);
  CHECK(out[0].ticket != first);
}

TEST_CASE("no ticket is retired, and none issued anew, before the engine let go of the Anchors") {
  TicketDesk desk({.nodes = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.node_up(1, &out);
  desk.want(1, {.prompt_tokens = 100, .cache = true}, 0, &out);
  desk.anchored(out.back().ticket, &out);
  desk.anchored(out.back().ticket, &out);  // Once is enough.
  CHECK(kinds(out) == std::vector{Kind::kIssue, Kind::kAnchored});
  const TicketNumber ticket = out.back().ticket;
  out.clear();
  SECTION("its node dies") {
    desk.node_down(0, {Code::kUnavailable, "died"}, &out);
    CHECK(kinds(out) == std::vector{Kind::kAnchorsLost});
    out.clear();
    desk.retired(ticket + 1, 0, &out);
    desk.anchored(ticket, &out);
    CHECK(out.empty());
    desk.anchors_let_go(1, &out);
    desk.anchors_let_go(1, &out);
    CHECK(kinds(out) == std::vector{Kind::kRetire});
    CHECK(out[0].ticket == ticket);
    out.clear();
    desk.retired(ticket, 0, &out);
    CHECK(kinds(out) == std::vector{Kind::kIssue});
    out.clear();
    // Those of the second ticket are another matter.
    desk.anchors_let_go(1, &out);
    CHECK(out.empty());
    desk.node_down(1, {Code::kUnavailable, "died"}, &out);
    CHECK(kinds(out) == std::vector{Kind::kRetire});
  }
  SECTION("the engine ends the request: it reads nothing any more") {
    desk.end(1, &out);
    CHECK(kinds(out) == std::vector{Kind::kCancel, Kind::kRetire});
    out.clear();
    desk.anchors_let_go(1, &out);
    CHECK(out.empty());
  }
  SECTION("the engine ends the request instead of an answer") {
    desk.node_down(0, {Code::kUnavailable, "died"}, &out);
    out.clear();
    desk.end(1, &out);
    CHECK(kinds(out) == std::vector{Kind::kRetire});
    out.clear();
    desk.anchors_let_go(1, &out);
    CHECK(out.empty());
    desk.retired(ticket, 0, &out);
    CHECK(kinds(out) == std::vector{Kind::kReleased});
  }
}

// Fails where word of the Anchors that was under way when the node died counts: the engine would read them while another transfer
// writes.
TEST_CASE("Anchors of a ticket that is being retired are told to nobody") {
  TicketDesk desk({.nodes = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.node_up(1, &out);
  desk.want(1, {.prompt_tokens = 100, .cache = true}, 0, &out);
  const TicketNumber ticket = out.back().ticket;
  desk.node_down(0, {Code::kUnavailable, "died"}, &out);
  out.clear();
  desk.anchored(ticket, &out);
  CHECK(out.empty());
  desk.retired(ticket, 0, &out);
  CHECK(kinds(out) == std::vector{Kind::kIssue});
}

TEST_CASE("what one node refuses is asked of every other once, and the last refusal reaches the engine as it is") {
  TicketDesk desk({.nodes = 3});
  Commands out;
  for (NodeIndex node = 0; node < 3; ++node) desk.node_up(node, &out);
  desk.want(1, {.prompt_tokens = 5}, 0, &out);
  std::set<NodeIndex> asked;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(out.back().kind == Kind::kIssue);
    const TicketNumber ticket = out.back().ticket;
    CHECK(asked.insert(out.back().node).second);
    desk.ticket_failed(ticket, resource_exhausted("node " + std::to_string(i) + " is too small"), &out);
    desk.retired(ticket, 0, &out);
  }
  REQUIRE(out.back().kind == Kind::kFailed);
  CHECK(out.back().why.code() == Code::kResourceExhausted);
  CHECK(out.back().why.message() == "node 2 is too small");
}

TEST_CASE("a transfer that was given up is tried again, by the same node if there is no other") {
  TicketDesk desk({.nodes = 1, .max_attempts = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.want(1, {.prompt_tokens = 5}, 0, &out);
  for (const bool last : {false, true}) {
    const TicketNumber ticket = out.back().ticket;
    out.clear();
    desk.ticket_failed(ticket, {Code::kDataLoss, "given up"}, &out);
    REQUIRE(kinds(out) == std::vector{Kind::kCancel, Kind::kRetire});
    desk.retired(ticket, 0, &out);
    CHECK(out.back().kind == (last ? Kind::kFailed : Kind::kIssue));
  }
}

TEST_CASE("with no node up a request waits for its patience and no longer") {
  TicketDesk desk({.nodes = 1, .patience_us = 100});
  Commands out;
  desk.want(1, {.prompt_tokens = 5}, 1000, &out);
  CHECK(desk.next_tick_us() == 1100);
  desk.tick(1099, &out);
  CHECK(out.empty());
  desk.tick(1100, &out);
  REQUIRE(kinds(out) == std::vector{Kind::kFailed});
  CHECK(out[0].why.code() == Code::kUnavailable);
}

}  // namespace
}  // namespace lynx::scheduler
