#pragma once

// What all paths that look into planes share. Compiled with the flags of each.

#include "attention/chunk_kernel.h"

namespace lynx::attention {
namespace {

constexpr int kRowSlots = 32;
constexpr int kRowBytes = kRowSlots / 2;  ///< Two slots a byte.
constexpr int kScaleChannels = 64;        ///< Channels of V that share a scale.

[[gnu::always_inline]] inline int scale_groups(const ChunkTask& task) {
  return (task.head_dim + kScaleChannels - 1) / kScaleChannels;
}

/// What is worth fetching while K of block `index`, or V of block `index` − anchors, is read. Planes are small: by the time that
/// one is through, the one after the next must be on its way.
[[gnu::always_inline]] inline const AnchorHead& plane_ahead(const ChunkTask& task, int index) {
  index += kPlanesAhead;
  if (index < task.anchors) return task.anchor_k[index];
  index -= task.anchors;
  return index < task.anchors ? task.anchor_v[index] : task.anchor_k[index];
}

}  // namespace
}  // namespace lynx::attention
