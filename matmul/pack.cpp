#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "matmul/packed_matrix.h"

namespace lynx::matmul {
namespace {

/// The half-precision bits of `value` if it has exactly that value.
bool exact_f16(float value, std::uint16_t* half) {
  const std::uint32_t bits = float_to_bits(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14f) {  // Zero and the subnormal halves: multiples of 2⁻²⁴.
    const float scaled = magnitude * 0x1p24f;
    const auto units = static_cast<std::uint16_t>(scaled);
    *half = static_cast<std::uint16_t>(sign | units);
    return static_cast<float>(units) == scaled;
  }
  if (!(magnitude < 65536.0f) || (bits & 0x1fffu) != 0) return false;
  *half = static_cast<std::uint16_t>(sign | (((bits & 0x7fffffffu) - (112u << 23)) >> 13));
  return true;
}

/// One row of one source, and where it goes: row `row` of the panel at `panel`.
struct RowJob {
  const WeightSource& source;
  const std::byte* data;
  Format format;
  Bf16Order order;
  int row;
  int chunks;
  std::byte* panel;
};

/// `values` is room for one row.
void pack_bf16_row(const RowJob& job, std::vector<float>& values) {
  quant::dequantize(job.source.type, job.data, static_cast<std::size_t>(job.source.cols), values.data());
  const Bf16Strides strides = bf16_strides(job.order, job.chunks);
  auto* out = reinterpret_cast<Bf16*>(job.panel) + static_cast<std::size_t>(job.row / kStripRows) * strides.strip +
              static_cast<std::size_t>(job.row % kStripRows) * kChunk;
  const float* chunk = values.data();
  for (int left = job.source.cols; left > 0; left -= kChunk, chunk += kChunk, out += strides.chunk) {
    // The first loop is the one that the compiler turns into vector instructions.
    if (left >= kChunk) {
      for (int v = 0; v < kChunk; ++v) out[v] = float_to_bf16(chunk[v]);
    } else {
      for (int v = 0; v < left; ++v) out[v] = float_to_bf16(chunk[v]);
    }
  }
}

/// Stores value `index` of a chunk's scales and minima; false if the format cannot hold it exactly, or if arithmetic with it would
/// not be ordinary (infinities, NaN).
bool store_scale(Format format, std::byte* chunk, int index, float value) {
  if (!std::isfinite(value)) return false;
  if (has_f32_scales(format)) {
    std::memcpy(chunk + 4 * index, &value, sizeof value);
    return true;
  }
  std::uint16_t half = 0;
  if (!exact_f16(value, &half)) return false;
  std::memcpy(chunk + 2 * index, &half, sizeof half);
  return true;
}

void store_int4_codes(const quant::AffineGroup& group, int row, std::byte* codes) {
  std::array<std::uint16_t, kChunk> words;
  std::byte* strip = codes + static_cast<std::size_t>(row / kStripRows) * sizeof words;
  std::memcpy(words.data(), strip, sizeof words);
  const int shift = 4 * (row % kStripRows);
  for (std::size_t k = 0; k < kChunk; ++k) {
    words[k] = static_cast<std::uint16_t>(words[k] | (static_cast<unsigned>(group.codes[k] & 0x0f) << shift));
  }
  std::memcpy(strip, words.data(), sizeof words);
}

bool pack_affine_row(const RowJob& job) {
  for (int chunk = 0; chunk < job.chunks; ++chunk) {
    quant::AffineGroup group;
    quant::read_affine_group(job.source.type, job.data, static_cast<std::size_t>(chunk), &group);
    std::byte* out = job.panel + static_cast<std::size_t>(chunk) * chunk_bytes(job.format);
    std::byte* codes = out + scale_bytes(job.format);
    if (!store_scale(job.format, out, job.row, group.scale)) return false;
    if (is_int4(job.format)) {
      if (!store_scale(job.format, out, kPanelRows + job.row, group.minimum)) return false;
      store_int4_codes(group, job.row, codes);
    } else {
      std::memcpy(codes + static_cast<std::size_t>(job.row) * kChunk, group.codes, kChunk);
    }
  }
  return true;
}

std::size_t row_bytes(const WeightSource& source) {
  return static_cast<std::size_t>(source.cols) / static_cast<std::size_t>(quant::block_values(source.type)) *
         quant::block_bytes(source.type);
}

/// Fills `data` (zeroed); false if some value does not fit the format.
bool pack_panels(const WeightSource& source, Format format, Bf16Order order, int chunks, HostBuffer& data, ThreadPool& pool) {
  std::atomic<bool> fits{true};
  const std::size_t panel_bytes = chunk_bytes(format) * static_cast<std::size_t>(chunks);
  const int panels = (source.rows + kPanelRows - 1) / kPanelRows;
  pool.for_each(panels, [&](int panel) {
    const int first = panel * kPanelRows;
    std::vector<float> values(format == Format::kBf16 ? static_cast<std::size_t>(source.cols) : 0);
    for (int row = first; row < std::min(first + kPanelRows, source.rows) && fits.load(std::memory_order_relaxed); ++row) {
      const RowJob job{source, source.data + static_cast<std::size_t>(row) * row_bytes(source), format, order, row - first,
                       chunks, data.data() + static_cast<std::size_t>(panel) * panel_bytes};
      if (format == Format::kBf16) {
        pack_bf16_row(job, values);
      } else if (!pack_affine_row(job)) {
        fits.store(false, std::memory_order_relaxed);
      }
    }
  });
  return fits.load();
}

/// The formats that may hold the type, the smallest first; BF16 holds all.
std::vector<Format> candidate_formats(quant::WeightType type, const Kernels& kernels) {
  const int bits = kernels.keeps_packed ? quant::affine_bits(type) : 0;
  if (bits == 4) return {Format::kInt4F16, Format::kInt4F32, Format::kBf16};
  if (bits == 8) return {Format::kInt8F16, Format::kInt8F32, Format::kBf16};
  return {Format::kBf16};
}

Result<Segment> pack_segment(const WeightSource& source, const Kernels& kernels, int chunks, ThreadPool& pool) {
  const auto panels = static_cast<std::size_t>((source.rows + kPanelRows - 1) / kPanelRows);
  Segment segment;
  segment.rows = source.rows;
  for (Format format : candidate_formats(source.type, kernels)) {
    segment.data = HostBuffer();  // Give back what did not fit before asking for more.
    LYNX_TRY(segment.data, HostBuffer::allocate(panels * chunk_bytes(format) * static_cast<std::size_t>(chunks)));
    segment.format = format;
    if (pack_panels(source, format, kernels.order, chunks, segment.data, pool)) break;
  }
  return segment;
}

Status check_sources(std::span<const WeightSource> sources) {
  if (sources.empty()) return invalid_argument("a packed matrix needs at least one source");
  const int cols = sources.front().cols;
  for (const WeightSource& source : sources) {
    const auto refuse = [&](std::string_view why) {
      return invalid_argument(
          fmt::format("{} weights of shape [{}, {}] {}", quant::weight_type_name(source.type), source.rows, source.cols, why));
    };
    if (source.rows < 1 || source.cols < 1) return refuse("are empty");
    if (source.cols != cols) return refuse(fmt::format("cannot be stacked with others of {} columns", cols));
    if (source.cols % quant::block_values(source.type) != 0) return refuse("do not divide into blocks");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PackedMatrix::Impl>> pack_for(std::span<const WeightSource> sources, const Kernels& kernels,
                                                     ThreadPool& pool) {
  LYNX_RETURN_IF_ERROR(check_sources(sources));
  auto impl = std::make_unique<PackedMatrix::Impl>();
  impl->kernels = &kernels;
  impl->cols = sources.front().cols;
  impl->chunks = chunk_count(impl->cols);
  for (const WeightSource& source : sources) {
    LYNX_TRY(Segment segment, pack_segment(source, kernels, impl->chunks, pool));
    segment.first_row = impl->rows;
    segment.first_panel = impl->panels;
    impl->rows += source.rows;
    impl->panels += (source.rows + kPanelRows - 1) / kPanelRows;
    impl->segments.push_back(std::move(segment));
  }
  return impl;
}

}  // namespace lynx::matmul
