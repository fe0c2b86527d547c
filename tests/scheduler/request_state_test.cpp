#include "scheduler/request_state.h"

#include <set>
#include <string>
#include <tuple>

#include "tests/catch.h"

using namespace lynx::scheduler;
using State = RequestState;
using Event = RequestEvent;

// Written out as the list of what may happen, so that it is another form than the table under test; all other pairs must be
// refused.
TEST_CASE("every state x event pair does what docs/decode_states.md says") {
  const std::set<std::tuple<State, Event, State>> allowed{
      {State::kQueued, Event::kAdmit, State::kPrefilling},
      {State::kPreempted, Event::kAdmit, State::kPrefilling},
      {State::kQueued, Event::kAwait, State::kAwaitingCache},
      {State::kPreempted, Event::kAwait, State::kAwaitingCache},
      {State::kPrefilling, Event::kPromptDone, State::kDecoding},
      {State::kAwaitingCache, Event::kPromptDone, State::kDecoding},
      {State::kPrefilling, Event::kPreempt, State::kPreempted},
      {State::kAwaitingCache, Event::kPreempt, State::kPreempted},
      {State::kDecoding, Event::kPreempt, State::kPreempted},
      {State::kAwaitingCache, Event::kComplete, State::kFinished},
      {State::kDecoding, Event::kComplete, State::kFinished},
      {State::kQueued, Event::kFail, State::kFailed},
      {State::kPrefilling, Event::kFail, State::kFailed},
      {State::kAwaitingCache, Event::kFail, State::kFailed},
      {State::kDecoding, Event::kFail, State::kFailed},
      {State::kPreempted, Event::kFail, State::kFailed},
      {State::kAwaitingCache, Event::kAnchored, State::kDrafting},
      {State::kDrafting, Event::kAnchorsLost, State::kAwaitingCache},
      {State::kDrafting, Event::kPromptDone, State::kVerifying},
      {State::kVerifying, Event::kVerified, State::kDecoding},
      {State::kDrafting, Event::kPreempt, State::kPreempted},
      {State::kVerifying, Event::kPreempt, State::kPreempted},
      {State::kDrafting, Event::kComplete, State::kFinished},
      {State::kVerifying, Event::kComplete, State::kFinished},
      {State::kDrafting, Event::kFail, State::kFailed},
      {State::kVerifying, Event::kFail, State::kFailed},
  };
  std::size_t seen = 0;
  for (const State state : kRequestStates) {
    for (const Event event : kRequestEvents) {
      INFO(state_name(state) << " x event " << static_cast<int>(event));
      const auto after = next_state(state, event);
      if (after) {
        CHECK(allowed.count({state, event, *after}) == 1);
        ++seen;
      } else {
        for (const State target : kRequestStates) CHECK(allowed.count({state, event, target}) == 0);
      }
    }
  }
  CHECK(seen == allowed.size());
}

TEST_CASE("every state is exactly one of waiting, running and terminal, and terminal states are never left") {
  std::set<std::string> names;
  for (const State state : kRequestStates) {
    CHECK(static_cast<int>(is_waiting(state)) + static_cast<int>(is_running(state)) + static_cast<int>(is_terminal(state)) == 1);
    names.insert(std::string(state_name(state)));
    for (const Event event : kRequestEvents) {
      if (is_terminal(state)) CHECK_FALSE(next_state(state, event).has_value());
    }
    if (!is_terminal(state)) CHECK(next_state(state, Event::kFail) == State::kFailed);
  }
  CHECK(names.size() == kRequestStates.size());
}
