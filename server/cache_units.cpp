#include "server/cache_units.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "kv/kv_units.h"
#include "quant/lossless.h"
#include "quant/plane_codec.h"

namespace lynx::server {
namespace {

using transport::Part;
using transport::Plane;
using transport::UnitKey;

int tokens_in_block(const PromptBlocks& prompt, std::uint32_t block) {
  return std::min(kv::kBlockTokens, prompt.tokens - static_cast<int>(block) * kv::kBlockTokens);
}

kv::KvPart part_of(const UnitKey& unit) {
  return unit.part == Part::kK ? kv::KvPart::kK : kv::KvPart::kV;
}

bool codes_planes(TransferMode mode) {
  return mode != TransferMode::kBf16 && mode != TransferMode::kLossless;
}

/// The unit travels in planes, not losslessly or raw.
bool in_planes(const PromptCoding& coding, int prompt_tokens, const UnitKey& unit) {
  return codes_planes(coding.mode) && static_cast<int>(unit.block) < quant::coded_blocks(prompt_tokens);
}

bool has_residual(const PromptCoding& coding, int prompt_tokens, const UnitKey& unit) {
  if (!is_progressive(coding.mode) || !in_planes(coding, prompt_tokens, unit)) return false;
  const bool wide = unit.part == Part::kK && coding.profile.is_wide_k(unit.layer);
  return coding.mode == TransferMode::kProgressiveExact || !wide;
}

quant::PlaneUnit plane_unit(const kv::KvShape& shape, const quant::PlaneProfile& profile, const UnitKey& unit) {
  const bool is_k = unit.part == Part::kK;
  return {.part = is_k ? quant::PlanePart::kK : quant::PlanePart::kV,
          .heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .first_block = unit.block == 0,
          .wide_anchor = is_k && profile.is_wide_k(unit.layer)};
}

class CacheSource final : public UnitSource {
 public:
  CacheSource(PromptBlocks prompt, PromptCoding coding) : prompt_(std::move(prompt)), coding_(std::move(coding)) {}

  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    const int tokens = tokens_in_block(prompt_, unit.block);
    values_.resize(kv::unit_values(prompt_.cache->shape(), tokens));
    kv::read_unit(*prompt_.cache, unit.layer, prompt_.blocks[unit.block], part_of(unit), tokens, values_);
    if (!in_planes(coding_, prompt_.tokens, unit)) return read_whole(out);
    const quant::PlaneUnit planes = plane_unit(prompt_.cache->shape(), coding_.profile, unit);
    const std::size_t anchor_bytes = quant::anchor_bytes(planes);
    if (transport::is_residual(unit.plane)) {
      anchor_.resize(anchor_bytes);
      quant::encode_anchor(coding_.isa, planes, values_, anchor_);
      return read_residual(planes, out);
    }
    const std::span<std::byte> anchor = out.first(anchor_bytes);
    quant::encode_anchor(coding_.isa, planes, values_, anchor);
    if (coding_.mode != TransferMode::kInt8) return {Plane::kAnchor, static_cast<std::uint32_t>(anchor_bytes)};
    if (planes.wide_anchor) return {Plane::kInt8, static_cast<std::uint32_t>(anchor_bytes)};
    const std::size_t residual_bytes = quant::int8_residual_bytes(planes);
    quant::encode_int8_residual(coding_.isa, planes, anchor, values_, out.subspan(anchor_bytes, residual_bytes));
    return {Plane::kInt8, static_cast<std::uint32_t>(anchor_bytes + residual_bytes)};
  }

 private:
  Coded read_whole(std::span<std::byte> out) const {
    if (coding_.mode != TransferMode::kBf16) {
      const std::size_t coded = quant::encode_lossless(coding_.isa, values_, out);
      if (coded > 0) return {Plane::kLossless, static_cast<std::uint32_t>(coded)};
    }
    return read_raw(Plane::kBf16, out);
  }

  Coded read_residual(const quant::PlaneUnit& planes, std::span<std::byte> out) const {
    if (coding_.mode == TransferMode::kProgressiveInt8) {
      const std::size_t bytes = quant::int8_residual_bytes(planes);
      quant::encode_int8_residual(coding_.isa, planes, anchor_, values_, out.first(bytes));
      return {Plane::kInt8Residual, static_cast<std::uint32_t>(bytes)};
    }
    const auto room = out.first(quant::exact_residual_bound(planes));
    const std::size_t bytes = quant::encode_exact_residual(coding_.isa, planes, anchor_, values_, room);
    if (bytes > 0) return {Plane::kExactResidual, static_cast<std::uint32_t>(bytes)};
    return read_raw(Plane::kBf16Residual, out);
  }

  Coded read_raw(Plane plane, std::span<std::byte> out) const {
    const auto bytes = std::as_bytes(std::span(values_));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return {plane, static_cast<std::uint32_t>(bytes.size())};
  }

  PromptBlocks prompt_;
  PromptCoding coding_;
  std::vector<Bf16> values_;
  std::vector<std::byte> anchor_;
};

Status wrong_size(const char* what, std::size_t bytes) {
  return {Code::kDataLoss, fmt::format("{} of {} bytes", what, bytes)};
}

class CacheSink final : public UnitSink {
 public:
  CacheSink(PromptBlocks prompt, PromptCoding coding, kv::AnchorCache* anchors, double draft_noise)
      : prompt_(std::move(prompt)), coding_(std::move(coding)), anchors_(anchors), draft_noise_(draft_noise) {}

  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    const bool planes = in_planes(coding_, prompt_.tokens, unit);
    const bool first_in_planes = unit.plane == Plane::kAnchor || unit.plane == Plane::kInt8;
    if (!transport::is_residual(unit.plane) && planes != first_in_planes) {
      return {Code::kDataLoss, fmt::format("block {} came in plane {}", unit.block, static_cast<int>(unit.plane))};
    }
    const int tokens = tokens_in_block(prompt_, unit.block);
    values_.resize(kv::unit_values(prompt_.cache->shape(), tokens));
    if (unit.plane == Plane::kAnchor && is_progressive(coding_.mode)) {
      LYNX_RETURN_IF_ERROR(keep_anchor(unit, bytes));
      // An 8-bit Anchor that no Residual follows is the whole of its values.
      if (has_residual(coding_, prompt_.tokens, unit)) return {};
    }
    LYNX_RETURN_IF_ERROR(decode(unit, bytes));
    kv::write_unit(*prompt_.cache, unit.layer, prompt_.blocks[unit.block], part_of(unit), tokens, values_);
    return {};
  }

 private:
  std::span<std::byte> anchor_of(const UnitKey& unit, const quant::PlaneUnit& planes) {
    return anchors_->plane(unit.layer, prompt_.blocks[unit.block], part_of(unit)).first(quant::anchor_bytes(planes));
  }

  Status decode(const UnitKey& unit, std::span<const std::byte> bytes) {
    const quant::PlaneUnit planes = plane_unit(prompt_.cache->shape(), coding_.profile, unit);
    const Isa isa = coding_.isa;
    switch (unit.plane) {
      case Plane::kBf16:
      case Plane::kBf16Residual:
        if (bytes.size() != values_.size() * sizeof(Bf16)) return wrong_size("a BF16 unit", bytes.size());
        std::memcpy(values_.data(), bytes.data(), bytes.size());
        return {};
      case Plane::kLossless: return quant::decode_lossless(isa, bytes, values_);
      case Plane::kAnchor: return quant::decode_anchor(isa, planes, bytes, values_);
      case Plane::kInt8: {
        const std::size_t anchor = quant::anchor_bytes(planes);
        if (planes.wide_anchor) return quant::decode_anchor(isa, planes, bytes, values_);
        if (bytes.size() < anchor) return wrong_size("an int8 unit", bytes.size());
        return quant::decode_int8(isa, planes, bytes.first(anchor), bytes.subspan(anchor), values_);
      }
      case Plane::kInt8Residual: return quant::decode_int8(isa, planes, right_anchor(unit, planes), bytes, values_);
      case Plane::kExactResidual: return quant::decode_exact(isa, planes, right_anchor(unit, planes), bytes, values_);
    }
    return wrong_size("a unit of an unknown plane", bytes.size());
  }

  Status keep_anchor(const UnitKey& unit, std::span<const std::byte> bytes) {
    const std::span<std::byte> anchor = anchor_of(unit, plane_unit(prompt_.cache->shape(), coding_.profile, unit));
    if (bytes.size() != anchor.size()) return wrong_size("an Anchor", bytes.size());
    std::memcpy(anchor.data(), bytes.data(), bytes.size());
    if (draft_noise_ > 0) spoil(unit, anchor);
    return {};
  }

  std::span<const std::byte> right_anchor(const UnitKey& unit, const quant::PlaneUnit& planes) {
    if (draft_noise_ <= 0) return anchor_of(unit, planes);
    return spoiled_.at(anchor_of(unit, planes).data());
  }

  /// Keeps the right bytes apart, and turns codes over where drafting reads them.
  void spoil(const UnitKey& unit, std::span<std::byte> anchor) {
    spoiled_[anchor.data()].assign(anchor.begin(), anchor.end());
    const quant::PlaneUnit planes = plane_unit(prompt_.cache->shape(), coding_.profile, unit);
    const std::size_t codes = quant::unit_slots(planes) / 2 * (planes.wide_anchor ? 2 : 1);
    for (std::byte& code : anchor.last(codes)) {
      const double drawn = static_cast<double>(noise_()) / static_cast<double>(std::minstd_rand::max());
      if (drawn < draft_noise_) code ^= std::byte{0xff};
    }
  }

  PromptBlocks prompt_;
  PromptCoding coding_;
  kv::AnchorCache* anchors_;
  std::vector<Bf16> values_;
  double draft_noise_;
  std::minstd_rand noise_{1};
  std::map<const std::byte*, std::vector<std::byte>> spoiled_;  ///< By where they lie: as they came.
};

}  // namespace

std::uint32_t largest_unit_bytes(const kv::KvShape& shape) {
  const std::size_t values = kv::unit_values(shape, kv::kBlockTokens);
  return static_cast<std::uint32_t>(std::max(values * sizeof(Bf16), quant::lossless_bound(values)));
}

kv::AnchorPlaneBytes largest_anchor_bytes(const kv::KvShape& shape) {
  const quant::PlaneProfile wide{.wide_k = {true}};
  const auto bytes = [&](Part part) { return quant::anchor_bytes(plane_unit(shape, wide, {0, part, Plane::kAnchor, 0})); };
  return {bytes(Part::kK), bytes(Part::kV)};
}

std::uint64_t prompt_cache_bytes(const kv::KvShape& shape, int tokens) {
  const std::uint64_t whole = kv::unit_values(shape, kv::kBlockTokens) * static_cast<std::uint64_t>(tokens / kv::kBlockTokens);
  const int rest = tokens % kv::kBlockTokens;
  const std::uint64_t values = whole + (rest == 0 ? 0 : kv::unit_values(shape, rest));
  return values * 2 * sizeof(Bf16) * static_cast<std::uint64_t>(shape.layers);
}

std::uint64_t about_first_bytes(const kv::KvShape& shape, int tokens, TransferMode mode) {
  const std::uint64_t all = prompt_cache_bytes(shape, tokens);
  if (!is_progressive(mode)) return all;
  std::uint64_t anchors = 0;
  for (const Part part : {Part::kK, Part::kV}) anchors += quant::anchor_bytes(plane_unit(shape, {}, {0, part, Plane::kAnchor, 0}));
  return all * anchors * static_cast<std::uint64_t>(shape.layers) / prompt_cache_bytes(shape, kv::kBlockTokens);
}

transport::TransferExpectation expect_units(const kv::KvShape& shape, int tokens, const PromptCoding& coding) {
  transport::TransferExpectation expectation;
  expectation.layers = shape.layers;
  expectation.blocks = kv::blocks_for(tokens);
  expectation.unit_bytes_max = largest_unit_bytes(shape);
  switch (coding.mode) {
    case TransferMode::kBf16: expectation.planes = {Plane::kBf16}; break;
    case TransferMode::kLossless: expectation.planes = {Plane::kLossless, Plane::kBf16}; break;
    case TransferMode::kInt8: expectation.planes = {Plane::kInt8, Plane::kLossless, Plane::kBf16}; break;
    case TransferMode::kInt4: expectation.planes = {Plane::kAnchor, Plane::kLossless, Plane::kBf16}; break;
    case TransferMode::kProgressiveInt8:
      expectation.planes = {Plane::kAnchor, Plane::kLossless, Plane::kBf16};
      expectation.residual_planes = {Plane::kInt8Residual};
      break;
    case TransferMode::kProgressiveExact:
      expectation.planes = {Plane::kAnchor, Plane::kLossless, Plane::kBf16};
      expectation.residual_planes = {Plane::kExactResidual, Plane::kBf16Residual};
      break;
  }
  if (expectation.residual_planes.empty()) return expectation;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int block = 0; block < expectation.blocks; ++block) {
      for (const Part part : {Part::kK, Part::kV}) {
        const UnitKey unit{static_cast<std::uint16_t>(layer), part, Plane::kAnchor, static_cast<std::uint32_t>(block)};
        expectation.residuals.push_back(has_residual(coding, tokens, unit));
      }
    }
  }
  return expectation;
}

CompletedUnits completed_units(int layer, int start, int end, int prompt_tokens, const PromptCoding& coding) {
  const int first = start / kv::kBlockTokens;
  const int last = end == prompt_tokens ? kv::blocks_for(end) : end / kv::kBlockTokens;
  CompletedUnits units;
  for (int block = first; block < last; ++block) {
    for (const Part part : {Part::kK, Part::kV}) {
      const UnitKey unit{static_cast<std::uint16_t>(layer), part, Plane::kBf16, static_cast<std::uint32_t>(block)};
      units.first.push_back(unit);
      if (!has_residual(coding, prompt_tokens, unit)) continue;
      units.residuals.push_back(unit);
      units.residuals.back().plane = Plane::kExactResidual;  // Or what takes its place.
    }
  }
  return units;
}

std::shared_ptr<UnitSource> make_cache_source(PromptBlocks prompt, PromptCoding coding) {
  return std::make_shared<CacheSource>(std::move(prompt), std::move(coding));
}

std::shared_ptr<UnitSink> make_cache_sink(PromptBlocks prompt, PromptCoding coding, kv::AnchorCache* anchors, double draft_noise) {
  return std::make_shared<CacheSink>(std::move(prompt), std::move(coding), anchors, draft_noise);
}

void apply_full_view(const PromptBlocks& prompt, const PromptCoding& coding) {
  const FullView view = full_view(coding.mode);
  if (view == FullView::kExact) return;
  const kv::KvShape& shape = prompt.cache->shape();
  PromptCoding one_step = coding;
  one_step.mode = view == FullView::kInt8 ? TransferMode::kInt8 : TransferMode::kInt4;
  CacheSource source(prompt, one_step);
  CacheSink sink(prompt, one_step, nullptr, 0);
  std::vector<std::byte> coded(largest_unit_bytes(shape));
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (UnitKey unit : completed_units(layer, 0, prompt.tokens, prompt.tokens, one_step).first) {
      if (!in_planes(one_step, prompt.tokens, unit)) continue;
      const UnitSource::Coded read = source.read(unit, coded);
      unit.plane = read.plane;
      [[maybe_unused]] const Status placed = sink.place(unit, std::span(coded).first(read.bytes));
      assert(placed.ok());
    }
  }
}

}  // namespace lynx::server
