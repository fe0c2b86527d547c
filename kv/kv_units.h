#pragma once

// K or V of one block of one layer in the order in which it crosses the network: only the groups of 16 tokens that hold tokens of
// the prompt, D = head_dim rounded up to 32, as kv/kv_cache.h stores them:
//   K: [KV head][groups of 16 tokens][D/2 channel pairs][16 tokens][2 channels]
//   V: [KV head][D/16 groups of 16 channels][groups of 16 tokens][8 token pairs][16 channels][2 tokens]
// Slots of the last group beyond the prompt are zero on the wire: they may hold another request's values in the cache.

#include <cstddef>
#include <span>

#include "kv/kv_cache.h"

namespace lynx::kv {

enum class KvPart { kK, kV };

/// BF16 values of a unit of `tokens` tokens (1 … 64): heads · stored dimension · tokens rounded up to 16.
std::size_t unit_values(const KvShape& shape, int tokens);

/// Gathers a unit into `out` [unit_values(shape, tokens)]. Reads the block only; any thread while nobody writes the block.
void read_unit(const KvCache& cache, int layer, BlockId block, KvPart part, int tokens, std::span<Bf16> out);

/// The way back. Slots of the last group beyond `tokens`, and channels from head_dim to D, become zero whatever `values` say; other
/// slots of the block stay. Any thread while nobody else uses the block.
void write_unit(KvCache& cache, int layer, BlockId block, KvPart part, int tokens, std::span<const Bf16> values);

}  // namespace lynx::kv
