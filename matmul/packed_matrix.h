#pragma once

// The inside of PackedMatrix: for pack.cpp, multiply() and tests.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "device/host_buffer.h"
#include "device/thread_pool.h"
#include "matmul/kernels.h"
#include "matmul/matmul.h"

namespace lynx::matmul {

/// The panels of one source. All in one format.
struct Segment {
  Format format = Format::kBf16;
  int rows = 0;
  int first_row = 0;    ///< Row of W, column of Y.
  int first_panel = 0;  ///< Counted over all segments.
  HostBuffer data;
};

struct PackedMatrix::Impl {
  const Kernels* kernels = nullptr;
  int rows = 0;
  int cols = 0;
  int chunks = 0;
  int panels = 0;
  std::vector<Segment> segments;

  const Segment& segment_of(int panel) const {
    std::size_t i = segments.size() - 1;
    while (segments[i].first_panel > panel) --i;
    return segments[i];
  }

  Panel panel_view(const Segment& segment, int panel) const {
    const int index = panel - segment.first_panel;
    const std::size_t bytes = chunk_bytes(segment.format) * static_cast<std::size_t>(chunks);
    const int left = segment.rows - index * kPanelRows;
    return {segment.format, kernels->order, segment.data.data() + bytes * static_cast<std::size_t>(index), chunks,
            left < kPanelRows ? left : kPanelRows};
  }
};

/// PackedMatrix::pack() for a given table of kernels.
Result<std::unique_ptr<PackedMatrix::Impl>> pack_for(std::span<const WeightSource> sources, const Kernels& kernels,
                                                     ThreadPool& pool);

/// multiply() on the inside of a matrix.
void multiply_with(const PackedMatrix::Impl& weights, const Bf16* x, int m, int ldx, float* y, int ldy, ThreadPool& pool);

}  // namespace lynx::matmul
