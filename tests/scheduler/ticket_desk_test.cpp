#include "scheduler/ticket_desk.h"

#include <vector>

#include "tests/catch.h"

namespace lynx::scheduler {
namespace {

using Kind = TicketCommand::Kind;
using Commands = std::vector<TicketCommand>;

std::vector<Kind> kinds(const Commands& commands) {
  std::vector<Kind> list;
  for (const TicketCommand& command : commands) list.push_back(command.kind);
  return list;
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

// Fails where a node that says early that it drains is taken for ready when the proof of its data plane comes in.
TEST_CASE("a node that drains stays out until it was down") {
  TicketDesk desk({.nodes = 1});
  Commands out;
  desk.node_draining(0);
  desk.node_up(0, &out);
  CHECK_FALSE(desk.node_is_up(0));
  desk.want(1, {.prompt_tokens = 5}, 0, &out);
  CHECK(out.empty());
  desk.node_down(0, {Code::kUnavailable, "gone"}, &out);
  desk.node_up(0, &out);
  CHECK(kinds(out) == std::vector{Kind::kIssue});
}

TEST_CASE("a ticket is computed at its node alone, and by nobody once it is being retired") {
  TicketDesk desk({.nodes = 2});
  Commands out;
  desk.node_up(0, &out);
  desk.want(7, {.prompt_tokens = 5}, 0, &out);
  desk.node_up(1, &out);
  const TicketNumber ticket = out.at(0).ticket;
  CHECK(desk.computed_at(0, ticket) == 7);
  CHECK_FALSE(desk.computed_at(1, ticket));
  CHECK_FALSE(desk.computed_at(0, ticket + 1));
  desk.end(7, &out);
  CHECK_FALSE(desk.computed_at(0, ticket));
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
