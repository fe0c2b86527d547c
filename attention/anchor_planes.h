#pragma once

// Where in an Anchor plane the parts of one KV head lie.

#include "attention/attention.h"
#include "attention/chunk_kernel.h"
#include "kv/anchor_cache.h"

namespace lynx::attention {

struct AnchorPlace {
  int layer;
  kv::BlockId block;
  bool first_block;  ///< Of its prompt.
  int kv_head;
};

/// A view of the plane. `shape` is the cache's.
AnchorHead anchor_head(const AnchorView& anchors, const kv::KvShape& shape, AnchorPlace place, kv::KvPart part);

}  // namespace lynx::attention
