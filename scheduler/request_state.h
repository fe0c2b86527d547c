#pragma once

// A request's life as a table (normative text: docs/decode_states.md). Pure: no clock, no I/O.

#include <array>
#include <optional>
#include <string_view>

namespace lynx::scheduler {

enum class RequestState {
  kQueued,         ///< Waiting for its first admission; holds no blocks.
  kPrefilling,     ///< Admitted; its prompt is being computed (again, after a preemption).
  kAwaitingCache,  ///< Admitted; its prompt is computed elsewhere, and its KV cache comes over the network (again, after …).
  kDrafting,       ///< The Anchors are there: tokens are drafted while the Residuals are on their way.
  kVerifying,      ///< The prompt's KV is complete, and there are drafts to be held against it.
  kDecoding,       ///< The prompt's KV is complete; tokens are generated or replayed.
  kPreempted,      ///< Gave its blocks back; waits for admission with its generated tokens kept.
  kFinished,       ///< Every choice ended. Terminal; not necessarily released.
  kFailed,         ///< Cancelled or failed. Terminal; not necessarily released.
};
inline constexpr std::array kRequestStates{RequestState::kQueued,    RequestState::kPrefilling, RequestState::kAwaitingCache,
                                           RequestState::kDrafting,  RequestState::kVerifying,  RequestState::kDecoding,
                                           RequestState::kPreempted, RequestState::kFinished,   RequestState::kFailed};

enum class RequestEvent {
  kAdmit,        ///< It got its blocks; its prompt is computed here.
  kAwait,        ///< It got its blocks; its prompt's cache is asked for.
  kAnchored,     ///< All Anchors of the prompt's cache are there.
  kAnchorsLost,  ///< They are about to be written anew: their transfer ended, and another one begins.
  kPromptDone,   ///< The prompt's KV cache is complete: computed, or arrived and checked.
  kVerified,     ///< No drafts are left to be held against the complete cache.
  kPreempt,      ///< Its blocks are wanted by an older request.
  kComplete,     ///< The last live choice ended.
  kFail,         ///< Cancelled by the client, or failed.
};
inline constexpr std::array kRequestEvents{RequestEvent::kAdmit,       RequestEvent::kAwait,      RequestEvent::kAnchored,
                                           RequestEvent::kAnchorsLost, RequestEvent::kPromptDone, RequestEvent::kVerified,
                                           RequestEvent::kPreempt,     RequestEvent::kComplete,   RequestEvent::kFail};

/// The state after `event`; nullopt: the event cannot happen in `state` (the caller broke the contract).
std::optional<RequestState> next_state(RequestState state, RequestEvent event);

/// "queued" and so on, for logs.
std::string_view state_name(RequestState state);

constexpr bool is_running(RequestState state) {
  return state == RequestState::kPrefilling || state == RequestState::kAwaitingCache || state == RequestState::kDrafting ||
         state == RequestState::kVerifying || state == RequestState::kDecoding;
}
/// Tokens may be added to it.
constexpr bool is_generating(RequestState state) {
  return is_running(state) && state != RequestState::kPrefilling;
}
/// The prompt's KV is complete.
constexpr bool has_prompt(RequestState state) {
  return state == RequestState::kVerifying || state == RequestState::kDecoding;
}
constexpr bool is_waiting(RequestState state) {
  return state == RequestState::kQueued || state == RequestState::kPreempted;
}
constexpr bool is_terminal(RequestState state) {
  return state == RequestState::kFinished || state == RequestState::kFailed;
}

}  // namespace lynx::scheduler
