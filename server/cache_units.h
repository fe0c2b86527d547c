#pragma once

// Between KV blocks and the units of a transfer: what a prefill node reads out of its cache, and a decode node writes into its own.
// Whole blocks of a prompt of more than one travel as their mode says; a prompt's partly filled last block, and a prompt that fits
// into one, always travel losslessly, in the first step (docs/plane_format.md).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/isa.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"
#include "quant/plane_profile.h"
#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "server/transfer_mode.h"
#include "transport/transfer_receiver.h"
#include "transport/wire_header.h"

namespace lynx::server {

/// The blocks of one prompt in a cache, which must outlive it.
struct PromptBlocks {
  kv::KvCache* cache = nullptr;
  std::vector<kv::BlockId> blocks;  ///< [blocks_for(tokens)]
  int tokens = 0;                   ///< Of the prompt.
};

/// How a prompt is coded.
struct PromptCoding {
  TransferMode mode = kDefaultTransferMode;
  quant::PlaneProfile profile;  ///< The prefill node's.
  Isa isa = Isa::kPortable;
};

/// Bytes of the largest unit of a cache of this shape, however it is coded.
std::uint32_t largest_unit_bytes(const kv::KvShape& shape);

/// Of a cache of this shape, whatever the profile: what an AnchorCache is made of.
kv::AnchorPlaneBytes largest_anchor_bytes(const kv::KvShape& shape);

/// Bytes of a whole prompt's units as they are, before any coding.
std::uint64_t prompt_cache_bytes(const kv::KvShape& shape, int tokens);

/// About what of it comes first, on the high lane: the Anchors of a progressive mode, else all of it.
std::uint64_t about_first_bytes(const kv::KvShape& shape, int tokens, TransferMode mode);

/// The units of a ticket, in one step or two. Ticket and secret are left to the caller.
transport::TransferExpectation expect_units(const kv::KvShape& shape, int tokens, const PromptCoding& coding);

/// Units that became complete, for either lane.
struct CompletedUnits {
  std::vector<transport::UnitKey> first;      ///< All of them, as they come first.
  std::vector<transport::UnitKey> residuals;  ///< Of those that come in two steps.
};

/// Units of positions start … end−1 of one layer that are complete with them: whole blocks, and the tail block once `end` is the
/// prompt's length. K before V.
CompletedUnits completed_units(int layer, int start, int end, int prompt_tokens, const PromptCoding& coding);

/// Codes units out of the cache. The blocks must not be written while it lives.
std::shared_ptr<UnitSource> make_cache_source(PromptBlocks prompt, PromptCoding coding);

/// Decodes units into the cache: nobody may use the blocks meanwhile, but that between on_anchored and the end drafting may read
/// their Anchors. `anchors` may be null if the mode is not progressive. `draft_noise` > 0 is for tests: that share of the codes
/// that drafting sees is wrong, while what is decoded from them is right.
std::shared_ptr<UnitSink> make_cache_sink(PromptBlocks prompt, PromptCoding coding, kv::AnchorCache* anchors,
                                          double draft_noise = 0);

/// Gives a prompt that was computed here the values that a transfer in this mode would have left: the oracle of the modes that lose
/// bits. Does nothing for those that do not.
void apply_full_view(const PromptBlocks& prompt, const PromptCoding& coding);

/// A probe's units: a fixed pattern, and its check.
std::shared_ptr<UnitSource> make_probe_source(std::uint32_t unit_bytes);
std::shared_ptr<UnitSink> make_probe_sink(std::uint32_t unit_bytes);

}  // namespace lynx::server
