#pragma once

#include <string>

#include "common/status.h"
#include "model/model.h"

namespace lynx::model {

/// A hash (XXH3, 128 bits, hexadecimal) of the logits that `model` gives for fixed tokens over fixed KV values: passes of 64, 1 and
/// 16 rows, across the 512-token border of attention, and at the last position that RoPE reaches. Two nodes with the same weights
/// and the same fingerprint compute the same bits; different fingerprints are allowed, and reported. About as much work as 82
/// prompt tokens. The engine thread's, like forward(). RESOURCE_EXHAUSTED: no memory for a cache of a few blocks.
Result<std::string> numerics_fingerprint(Model& model);

}  // namespace lynx::model
