#pragma once

// The prefix codes of the exact Residual. Nobody trains or sends them: a value lies anywhere within its step with the same chance,
// and that alone says how often each difference occurs. Computed in integers, so that both nodes have the same codes.

#include "quant/exponent_code.h"
#include "quant/plane_math.h"
#include "quant/residual_math.h"

namespace lynx::quant {

struct ResidualContext {
  int lowest;         ///< Symbol 0 is this difference, without its raw bits. Not for level 0.
  int escape;         ///< The last symbol: the value is among the escapes.
  ExponentCode code;  ///< Of symbols instead of exponents.
  ExponentTable table;
};

struct ResidualCode {
  ResidualContext contexts[kResidualContexts];
};

/// For levels of the Anchor, or for those of a wide one. Thread-safe; made at the first call.
const ResidualCode& residual_code(bool wide);

}  // namespace lynx::quant
