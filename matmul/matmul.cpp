#include "matmul/matmul.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "matmul/packed_matrix.h"
#include "quant/f16_math.h"

namespace lynx::matmul {
namespace {

// Work is cut into items of some panels × some rows of X. The rows of X of an item, and its decoded panels, should stay in the
// second-level cache; the rows of a sub-item beside one panel, mostly in the first.
constexpr int kItemRows = 256;
constexpr int kSubItemRows = 96;
constexpr int kItemPanels = 4;
constexpr std::size_t kScratchBytes = std::size_t{256} << 10;

// With few rows of X the weights stream from memory, and an item should be a long piece of them; yet every thread should get
// several.
constexpr int kFewRows = 16;
constexpr int kMostItemPanels = 16;
constexpr int kItemsPerThread = 8;

/// Memory that grows to the largest request of its thread and is kept: a multiply must not allocate in the steady state.
class Scratch {
 public:
  Bf16* get(std::size_t values) {
    if (values > capacity_) {
      memory_.reset();
      memory_.reset(static_cast<Bf16*>(::operator new(values * sizeof(Bf16), kAlignment)));
      capacity_ = values;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(Bf16* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<Bf16, Delete> memory_;
  std::size_t capacity_ = 0;
};

thread_local Scratch expanded_panels;
thread_local Scratch packed_rows;

constexpr int ceil_div(int a, int b) {
  return a / b + (a % b != 0);
}

/// One multiply() call, cut into items.
class Job {
 public:
  Job(const PackedMatrix::Impl& weights, const Bf16* x, int m, int ldx, float* y, int ldy, int threads)
      : weights_(weights),
        kernels_(*weights.kernels),
        x_(x),
        m_(m),
        ldx_(static_cast<std::size_t>(ldx)),
        y_(y),
        ldy_(static_cast<std::size_t>(ldy)) {
    const int streamed = std::clamp(weights.panels / (kItemsPerThread * threads), 1, kMostItemPanels);
    const auto fitting =
        static_cast<int>(std::clamp<std::size_t>(kScratchBytes / (panel_values() * sizeof(Bf16)), 1, kMostItemPanels));
    item_panels_ = std::min(m <= kFewRows ? streamed : kItemPanels, m <= kernels_.fused_rows ? kMostItemPanels : fitting);
  }

  void run(ThreadPool& pool) {
    if (kernels_.pack_rows != nullptr) pack_rows(pool);
    const int column_items = ceil_div(weights_.panels, item_panels_);
    pool.for_each(column_items * ceil_div(m_, kItemRows), [&](int item) {
      const int first_row = item / column_items * kItemRows;
      run_item(item % column_items * item_panels_, first_row, std::min(m_, first_row + kItemRows));
    });
  }

 private:
  std::size_t panel_values() const { return static_cast<std::size_t>(weights_.chunks) * kPanelRows * kChunk; }
  std::size_t row_tile_values() const { return static_cast<std::size_t>(weights_.chunks) * kRowTile * kChunk; }

  void pack_rows(ThreadPool& pool) {
    const int tiles = ceil_div(m_, kRowTile);
    Bf16* out = packed_rows.get(row_tile_values() * static_cast<std::size_t>(tiles));
    pool.for_each(tiles, [&](int tile) {
      const int first = tile * kRowTile;
      kernels_.pack_rows(x_ + static_cast<std::size_t>(first) * ldx_, std::min(kRowTile, m_ - first), ldx_, weights_.cols,
                         out + row_tile_values() * static_cast<std::size_t>(tile));
    });
    x_ = out;
  }

  /// X from row `row` on, as the kernels read it. Items and sub-items begin at row tiles.
  const Bf16* x_at(int row) const {
    if (kernels_.pack_rows == nullptr) return x_ + static_cast<std::size_t>(row) * ldx_;
    return x_ + static_cast<std::size_t>(row / kRowTile) * row_tile_values();
  }

  void run_item(int first_panel, int first_row, int last_row) const {
    struct {
      Panel view;
      int column;
    } panels[kMostItemPanels];
    const int count = std::min(item_panels_, weights_.panels - first_panel);
    for (int i = 0; i < count; ++i) {
      const Segment& segment = weights_.segment_of(first_panel + i);
      panels[i].view = weights_.panel_view(segment, first_panel + i);
      panels[i].column = segment.first_row + (first_panel + i - segment.first_panel) * kPanelRows;
      if (panels[i].view.format != Format::kBf16 && last_row - first_row > kernels_.fused_rows) expand(&panels[i].view, i);
    }
    for (int row = first_row; row < last_row; row += kSubItemRows) {
      const int rows = std::min(kSubItemRows, last_row - row);
      for (int i = 0; i < count; ++i) {
        float* y = y_ + static_cast<std::size_t>(row) * ldy_ + panels[i].column;
        kernels_.multiply_panel({panels[i].view, x_at(row), ldx_, rows, weights_.cols, y, ldy_});
      }
    }
  }

  void expand(Panel* panel, int slot) const {
    Bf16* out = expanded_panels.get(panel_values() * static_cast<std::size_t>(item_panels_)) +
                panel_values() * static_cast<std::size_t>(slot);
    kernels_.expand_panel(*panel, out);
    panel->format = Format::kBf16;
    panel->data = reinterpret_cast<const std::byte*>(out);
  }

  const PackedMatrix::Impl& weights_;
  const Kernels& kernels_;
  const Bf16* x_;
  int m_;
  std::size_t ldx_;
  float* y_;
  std::size_t ldy_;
  int item_panels_;
};

float scale_at(const Panel& panel, const std::byte* chunk, int index) {
  if (has_f32_scales(panel.format)) {
    float value = 0;
    std::memcpy(&value, chunk + 4 * index, sizeof value);
    return value;
  }
  quant::F16 half = 0;
  std::memcpy(&half, chunk + 2 * index, sizeof half);
  return quant::f16_to_float(half);
}

Bf16 value_at(const Panel& panel, int row, int k) {
  const int chunk_index = k / kChunk;
  const int within = k % kChunk;
  if (panel.format == Format::kBf16) {
    const Bf16Strides strides = bf16_strides(panel.order, panel.chunks);
    return reinterpret_cast<const Bf16*>(panel.data)[static_cast<std::size_t>(row / kStripRows) * strides.strip +
                                                     static_cast<std::size_t>(chunk_index) * strides.chunk +
                                                     static_cast<std::size_t>(row % kStripRows * kChunk + within)];
  }
  const std::byte* chunk = panel.data + static_cast<std::size_t>(chunk_index) * chunk_bytes(panel.format);
  const std::byte* codes = chunk + scale_bytes(panel.format);
  const float scale = scale_at(panel, chunk, row);
  if (!is_int4(panel.format)) {
    return float_to_bf16(scale * static_cast<float>(static_cast<std::int8_t>(codes[row * kChunk + within])));
  }
  std::uint16_t word = 0;
  std::memcpy(&word, codes + (row / kStripRows * kChunk + within) * 2, sizeof word);
  const int code = (word >> (4 * (row % kStripRows))) & 0x0f;
  return float_to_bf16(scale * static_cast<float>(code) + scale_at(panel, chunk, kPanelRows + row));
}

}  // namespace

const Kernels& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return portable_kernels();
    case Isa::kAvx2: return avx2_kernels();
    case Isa::kAvx512Bf16: return avx512bf16_kernels();
    case Isa::kAmxBf16: return amx_kernels();
  }
  return portable_kernels();
}

PackedMatrix::PackedMatrix(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

Result<PackedMatrix> PackedMatrix::pack(std::span<const WeightSource> sources, Isa isa, ThreadPool& pool) {
  LYNX_TRY(std::unique_ptr<Impl> impl, pack_for(sources, kernels_for(isa), pool));
  return PackedMatrix(std::move(impl));
}

int PackedMatrix::rows() const {
  return impl_->rows;
}

int PackedMatrix::cols() const {
  return impl_->cols;
}

std::size_t PackedMatrix::bytes() const {
  std::size_t bytes = 0;
  for (const Segment& segment : impl_->segments) bytes += segment.data.size();
  return bytes;
}

void multiply_with(const PackedMatrix::Impl& weights, const Bf16* x, int m, int ldx, float* y, int ldy, ThreadPool& pool) {
  if (m > 0) Job(weights, x, m, ldx, y, ldy, pool.size()).run(pool);
}

void multiply(const PackedMatrix& weights, const Bf16* x, int m, int ldx, float* y, int ldy, ThreadPool& pool) {
  multiply_with(weights.impl(), x, m, ldx, y, ldy, pool);
}

void read_row(const PackedMatrix& weights, int n, Bf16* out) {
  const PackedMatrix::Impl& impl = weights.impl();
  std::size_t i = impl.segments.size() - 1;
  while (impl.segments[i].first_row > n) --i;
  const Segment& segment = impl.segments[i];
  const int row = n - segment.first_row;
  const Panel panel = impl.panel_view(segment, segment.first_panel + row / kPanelRows);
  for (int k = 0; k < impl.cols; ++k) out[k] = value_at(panel, row % kPanelRows, k);
}

}  // namespace lynx::matmul
