#pragma once

// The oracle of the engine's tests: one request answered from the definitions, alone and all at once: no batching, no cache, no
// held-back text.

#include "server/engine.h"
#include "tests/server/engine_fake.h"

namespace lynx::server {

/// What `request` must get from an engine over a FakeRunner with that context. Its seed is set.
Collected reference_answer(const GenerateRequest& request, int context);

/// "" when both are the same in every field, else what differs.
std::string difference(const Collected& expected, const Collected& got);

/// "" when `got`, which ended early, is a beginning of `whole`.
std::string not_a_prefix(const Collected& whole, const Collected& got);

}  // namespace lynx::server
