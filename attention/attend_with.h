#pragma once

// attend() with the kernel named by the caller: lets a test run the AMX path where there is no AMX.

#include "attention/attention.h"
#include "attention/chunk_kernel.h"

namespace lynx::attention {

void attend_with(ChunkKernel kernel, const kv::KvCache& cache, int layer, HeadShape shape, std::span<const QuerySpan> spans,
                 const Bf16* q, Bf16* out, ThreadPool& pool, const AnchorView* anchors = nullptr);

}  // namespace lynx::attention
