#pragma once

#include <cstdint>
#include <string>

#include "server/engine.h"
#include "server/openai_prompt.h"
#include "server/openai_request.h"
#include "server/pair_view.h"

namespace lynx::server {

/// What answers generations, once the model is loaded. Nothing is owned; all of it outlives the fronts.
struct ServingBackend {
  Engine* engine = nullptr;
  TextTools text;
  RequestLimits limits;
  std::int64_t created = 0;  ///< Unix seconds; of the model, for /v1/models.
  std::string isa;
  const PairView* pair = nullptr;  ///< Where prompts come from a prefill node.
};

}  // namespace lynx::server
