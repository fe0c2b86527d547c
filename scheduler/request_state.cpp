#include "scheduler/request_state.h"

namespace lynx::scheduler {
namespace {

using State = RequestState;
constexpr std::optional<State> kNever = std::nullopt;

// clang-format off
// Rows: states, columns: events, both in the order of their enumerations.
constexpr std::array<std::array<std::optional<State>, kRequestEvents.size()>, kRequestStates.size()> kTable{{
    //                    kAdmit              kAwait                 kAnchored         kAnchorsLost           kPromptDone        kVerified         kPreempt           kComplete         kFail
    /* kQueued        */ {State::kPrefilling, State::kAwaitingCache, kNever,           kNever,                kNever,            kNever,           kNever,            kNever,           State::kFailed},
    /* kPrefilling    */ {kNever,             kNever,                kNever,           kNever,                State::kDecoding,  kNever,           State::kPreempted, kNever,           State::kFailed},
    /* kAwaitingCache */ {kNever,             kNever,                State::kDrafting, kNever,                State::kDecoding,  kNever,           State::kPreempted, State::kFinished, State::kFailed},
    /* kDrafting      */ {kNever,             kNever,                kNever,           State::kAwaitingCache, State::kVerifying, kNever,           State::kPreempted, State::kFinished, State::kFailed},
    /* kVerifying     */ {kNever,             kNever,                kNever,           kNever,                kNever,            State::kDecoding, State::kPreempted, State::kFinished, State::kFailed},
    /* kDecoding      */ {kNever,             kNever,                kNever,           kNever,                kNever,            kNever,           State::kPreempted, State::kFinished, State::kFailed},
    /* kPreempted     */ {State::kPrefilling, State::kAwaitingCache, kNever,           kNever,                kNever,            kNever,           kNever,            kNever,           State::kFailed},
    /* kFinished      */ {kNever,             kNever,                kNever,           kNever,                kNever,            kNever,           kNever,            kNever,           kNever},
    /* kFailed        */ {kNever,             kNever,                kNever,           kNever,                kNever,            kNever,           kNever,            kNever,           kNever},
}};
// clang-format on

}  // namespace

std::optional<RequestState> next_state(RequestState state, RequestEvent event) {
  return kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

std::string_view state_name(RequestState state) {
  constexpr std::array<std::string_view, kRequestStates.size()> kNames{
      "queued", "prefilling", "awaiting cache", "drafting", "verifying", "decoding", "preempted", "finished", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace lynx::scheduler
