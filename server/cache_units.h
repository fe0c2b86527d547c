#pragma once

// Between KV blocks and the units of a transfer: what a prefill node reads out of its cache, and a decode node writes into its own.

#include <memory>
#include <span>
#include <vector>

#include "device/isa.h"
#include "kv/kv_cache.h"
#include "server/engine.h"
#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "transport/wire_header.h"

namespace lynx::server {

/// The blocks of one prompt in a cache, which must outlive it.
struct PromptBlocks {
  kv::KvCache* cache = nullptr;
  std::vector<kv::BlockId> blocks;  ///< [blocks_for(tokens)]
  int tokens = 0;                   ///< Of the prompt.
};

/// Bytes of the largest unit of a cache of this shape, however it is coded.
std::uint32_t largest_unit_bytes(const kv::KvShape& shape);

/// Bytes of a whole prompt's units as they are, before any coding.
std::uint64_t prompt_cache_bytes(const kv::KvShape& shape, int tokens);

/// The planes that `mode` may send.
std::vector<transport::Plane> planes_of(TransferMode mode);

/// Units of positions start … end−1 of one layer that are complete with them: whole blocks, and the tail block once `end` is the
/// prompt's length. K before V.
std::vector<transport::UnitKey> completed_units(int layer, int start, int end, int prompt_tokens);

/// Codes units out of the cache by `mode`. The blocks must not be written while it lives.
std::shared_ptr<UnitSource> make_cache_source(PromptBlocks prompt, TransferMode mode, Isa isa);

/// Decodes units into the cache. Nobody may use the blocks while it is called.
std::shared_ptr<UnitSink> make_cache_sink(PromptBlocks prompt, Isa isa);

/// A probe's units: a fixed pattern, and its check.
std::shared_ptr<UnitSource> make_probe_source(std::uint32_t unit_bytes);
std::shared_ptr<UnitSink> make_probe_sink(std::uint32_t unit_bytes);

}  // namespace lynx::server
