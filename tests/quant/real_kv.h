#pragma once

// A real prompt's KV cache: the default model over the sample handbook.

#include <algorithm>
#include <span>
#include <vector>

#include "tests/catch.h"
#include "tests/model/forward_fixture.h"
#include "tests/model/real_text.h"

namespace lynx::quant {

inline constexpr int kRealTokens = 1024 + 21;  // Sixteen whole blocks, and one of 32 token slots of which 21 are used.
inline constexpr int kPassRows = 128;

/// The prompt's KV cache in a model that ran it.
inline kv::BlockTable run_prompt(model::TestModel& model, std::span<const std::int32_t> tokens) {
  kv::BlockTable table = model.new_table();
  for (int first = 0; first < kRealTokens; first += kPassRows) {
    const int rows = std::min(kPassRows, kRealTokens - first);
    model.run({&table, first, tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)), std::vector<int>{}});
  }
  return table;
}

}  // namespace lynx::quant
