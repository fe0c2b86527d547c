#include "server/plane_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kv/kv_units.h"
#include "quant/plane_codec.h"
#include "server/cache_units.h"
#include "server/kv_sender.h"
#include "transport/wire_header.h"

namespace lynx::server {
namespace {

using quant::plane_size;
using quant::PlanePart;
using quant::PlaneUnit;

constexpr PlanePart kParts[] = {PlanePart::kK, PlanePart::kV};

kv::KvPart kv_part(PlanePart part) {
  return part == PlanePart::kK ? kv::KvPart::kK : kv::KvPart::kV;
}

std::uint64_t unit_values(const PlaneUnit& unit) {
  return plane_size(unit.heads) * plane_size(unit.head_dim) * plane_size(kv::kBlockTokens);
}

/// One plane of one unit on the wire, in messages of the usual size. (On slow links Residuals go in smaller ones: at 16 KiB 0.6 %
/// more.)
std::uint64_t wire_bytes(std::size_t plane) {
  const std::size_t most = KvSenderOptions{}.chunk_bytes;
  return plane + (plane + most - 1) / most * transport::kWireHeaderBytes;
}

}  // namespace

PlaneSizes& PlaneSizes::operator+=(const PlaneSizes& other) {
  values += other.values;
  anchor += other.anchor;
  int8 += other.int8;
  exact += other.exact;
  return *this;
}

double PlaneSizes::bits(std::uint64_t bytes, std::uint64_t values) {
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
}

PlaneTrial::Regions PlaneTrial::regions_for(int prompt_tokens, int continuation) {
  Regions regions{};
  regions.prompt = std::max(quant::coded_blocks(prompt_tokens), 1);
  regions.view = kv::blocks_for(prompt_tokens + continuation);
  regions.tail = regions.view + regions.prompt;
  regions.drafts = regions.tail + kv::blocks_for(continuation) + 1;
  regions.blocks = regions.drafts + (continuation + kDraftStride - 1) / kDraftStride * kDraftBlocks;
  return regions;
}

Result<PlaneTrial> PlaneTrial::create(model::Model* model, Isa isa, ThreadPool* pool, int prompt_tokens, int continuation) {
  const kv::KvShape shape = model->kv_shape();
  const Regions regions = regions_for(prompt_tokens, continuation);
  LYNX_TRY(auto cache, kv::KvCache::create(shape, regions.blocks));
  LYNX_TRY(auto planes, kv::AnchorCache::create(shape.layers, regions.prompt, largest_anchor_bytes(shape)));
  return PlaneTrial(model, isa, pool, regions, std::move(cache), std::move(planes));
}

PlaneTrial::PlaneTrial(model::Model* model, Isa isa, ThreadPool* pool, Regions regions, kv::KvCache cache, kv::AnchorCache planes)
    : model_(model),
      isa_(isa),
      pool_(pool),
      regions_(regions),
      cache_(std::move(cache)),
      planes_(std::move(planes)),
      exact_table_(plane_size(regions.view)) {
  std::iota(exact_table_.begin(), exact_table_.end(), 0);
}

PlaneUnit PlaneTrial::unit(int layer, int block, PlanePart part) const {
  const kv::KvShape shape = cache_.shape();
  return {part, shape.kv_heads, shape.head_dim, block == 0, part == PlanePart::kK && profile_.is_wide_k(layer)};
}

void PlaneTrial::read(int layer, int block, PlanePart part, std::span<Bf16> values) const {
  kv::read_unit(cache_, layer, block, kv_part(part), kv::kBlockTokens, values);
}

void PlaneTrial::code_unit(int layer, int block, PlanePart part) {
  const PlaneUnit coded = unit(layer, block, part);
  std::vector<Bf16> values(unit_slots(coded));
  read(layer, block, part, values);
  quant::encode_anchor(isa_, coded, values, planes_.plane(layer, block, kv_part(part)).first(quant::anchor_bytes(coded)));
}

void PlaneTrial::expand_unit(int layer, int block, PlanePart part, PlaneView view) {
  const PlaneUnit coded = unit(layer, block, part);
  const auto anchor = planes_.plane(layer, block, kv_part(part)).first(quant::anchor_bytes(coded));
  std::vector<Bf16> values(unit_slots(coded));
  Status decoded;
  if (view == PlaneView::kAnchor || coded.wide_anchor) {
    decoded = quant::decode_anchor(isa_, coded, anchor, values);
  } else {
    read(layer, block, part, values);
    std::vector<std::byte> residual(quant::int8_residual_bytes(coded));
    quant::encode_int8_residual(isa_, coded, anchor, values, residual);
    decoded = quant::decode_int8(isa_, coded, anchor, residual, values);
  }
  static_cast<void>(decoded);  // Our own planes have the right sizes.
  kv::write_unit(cache_, layer, regions_.view + block, kv_part(part), kv::kBlockTokens, values);
}

void PlaneTrial::code(const quant::PlaneProfile& profile) {
  profile_ = profile;
  profile_.wide_k.resize(plane_size(cache_.shape().layers));
  pool_->for_each(cache_.shape().layers, [&](int layer) {
    for (int block = 0; block < coded_blocks(); ++block) {
      for (const PlanePart part : kParts) code_unit(layer, block, part);
    }
  });
}

void PlaneTrial::code_k(int layer, bool wide) {
  profile_.wide_k[plane_size(layer)] = wide;
  pool_->for_each(coded_blocks(), [&](int block) { code_unit(layer, block, PlanePart::kK); });
}

void PlaneTrial::expand(PlaneView view) {
  pool_->for_each(cache_.shape().layers, [&](int layer) {
    for (int block = 0; block < coded_blocks(); ++block) {
      for (const PlanePart part : kParts) expand_unit(layer, block, part, view);
    }
  });
}

void PlaneTrial::expand_k(int layer) {
  pool_->for_each(coded_blocks(), [&](int block) { expand_unit(layer, block, PlanePart::kK, PlaneView::kAnchor); });
}

Result<PlaneSizes> PlaneTrial::measure_unit(int layer, int block, PlanePart part) const {
  const PlaneUnit coded = unit(layer, block, part);
  const auto anchor = planes_.plane(layer, block, kv_part(part)).first(quant::anchor_bytes(coded));
  std::vector<Bf16> values(unit_slots(coded));
  read(layer, block, part, values);
  std::vector<std::byte> residual(quant::exact_residual_bound(coded));
  residual.resize(quant::encode_exact_residual(isa_, coded, anchor, values, residual));
  PlaneSizes sizes;
  sizes.values = unit_values(coded);
  sizes.anchor = wire_bytes(anchor.size());
  sizes.int8 = sizes.anchor + (coded.wide_anchor ? 0 : wire_bytes(quant::int8_residual_bytes(coded)));
  if (residual.empty()) {
    sizes.exact = sizes.anchor + wire_bytes(values.size() * sizeof(Bf16));
    return sizes;
  }
  sizes.exact = sizes.anchor + wire_bytes(residual.size());
  std::vector<Bf16> back(values.size());
  LYNX_RETURN_IF_ERROR(quant::decode_exact(isa_, coded, anchor, residual, back));
  if (back != values) return internal_error(fmt::format("layer {}, block {}: the exact Residual gives other values", layer, block));
  return sizes;
}

/// Of one part of one layer.
PlaneSizes PlaneTrial::measure_tail(int prompt_tokens) const {
  const int tokens = prompt_tokens % kv::kBlockTokens;
  if (tokens == 0) return {};
  const kv::KvShape shape = cache_.shape();
  const std::uint64_t bytes = wire_bytes(kv::unit_values(shape, tokens) * sizeof(Bf16));
  return {plane_size(shape.kv_heads) * plane_size(shape.head_dim) * plane_size(tokens), bytes, bytes, bytes};
}

PlaneSizes PlaneTrial::anchor_sizes(int prompt_tokens, const quant::PlaneProfile& profile) const {
  const kv::KvShape shape = cache_.shape();
  PlaneSizes all;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const PlanePart part : kParts) {
      const PlaneSizes tail = measure_tail(prompt_tokens);
      all += {tail.values, tail.anchor, 0, 0};
      for (int block = 0; block < quant::coded_blocks(prompt_tokens); ++block) {
        const bool wide = part == PlanePart::kK && profile.is_wide_k(layer);
        const PlaneUnit coded{part, shape.kv_heads, shape.head_dim, block == 0, wide};
        all += {unit_values(coded), wire_bytes(quant::anchor_bytes(coded)), 0, 0};
      }
    }
  }
  return all;
}

Result<PlaneSizes> PlaneTrial::measure(PlanePart part) const {
  const int layers = cache_.shape().layers;
  std::vector<PlaneSizes> sizes(plane_size(layers), measure_tail(static_cast<int>(prompt_.size())));
  std::vector<Status> failed(plane_size(layers));
  pool_->for_each(layers, [&](int layer) {
    for (int block = 0; block < coded_blocks(); ++block) {
      auto measured = measure_unit(layer, block, part);
      if (measured.ok()) sizes[plane_size(layer)] += *measured;
      if (!measured.ok()) failed[plane_size(layer)] = measured.status();
    }
  });
  PlaneSizes all;
  for (int layer = 0; layer < layers; ++layer) {
    LYNX_RETURN_IF_ERROR(failed[plane_size(layer)]);
    all += sizes[plane_size(layer)];
  }
  return all;
}

}  // namespace lynx::server
