#include "server/cache_units.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "kv/kv_units.h"
#include "quant/lossless.h"

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

class CacheSource final : public UnitSource {
 public:
  CacheSource(PromptBlocks prompt, TransferMode mode, Isa isa) : prompt_(std::move(prompt)), mode_(mode), isa_(isa) {}

  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    const int tokens = tokens_in_block(prompt_, unit.block);
    values_.resize(kv::unit_values(prompt_.cache->shape(), tokens));
    kv::read_unit(*prompt_.cache, unit.layer, prompt_.blocks[unit.block], part_of(unit), tokens, values_);
    if (mode_ == TransferMode::kLossless) {
      const std::size_t coded = quant::encode_lossless(isa_, values_, out);
      if (coded > 0) return {Plane::kLossless, static_cast<std::uint32_t>(coded)};
    }
    const auto bytes = std::as_bytes(std::span(values_));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return {Plane::kBf16, static_cast<std::uint32_t>(bytes.size())};
  }

 private:
  PromptBlocks prompt_;
  TransferMode mode_;
  Isa isa_;
  std::vector<Bf16> values_;
};

class CacheSink final : public UnitSink {
 public:
  CacheSink(PromptBlocks prompt, Isa isa) : prompt_(std::move(prompt)), isa_(isa) {}

  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    const int tokens = tokens_in_block(prompt_, unit.block);
    values_.resize(kv::unit_values(prompt_.cache->shape(), tokens));
    if (unit.plane == Plane::kLossless) {
      LYNX_RETURN_IF_ERROR(quant::decode_lossless(isa_, bytes, values_));
    } else if (bytes.size() == values_.size() * sizeof(Bf16)) {
      std::memcpy(values_.data(), bytes.data(), bytes.size());
    } else {
      return {Code::kDataLoss, fmt::format("a unit of {} tokens has {} bytes", tokens, bytes.size())};
    }
    kv::write_unit(*prompt_.cache, unit.layer, prompt_.blocks[unit.block], part_of(unit), tokens, values_);
    return {};
  }

 private:
  PromptBlocks prompt_;
  Isa isa_;
  std::vector<Bf16> values_;
};

// Differs from unit to unit, so that one in another's place is noticed.
std::byte probe_byte(const UnitKey& unit, std::uint32_t index) {
  return static_cast<std::byte>((index * 31 + unit.block * 7 + static_cast<unsigned>(unit.part) * 3 + (index >> 8)) & 0xff);
}

class ProbeSource final : public UnitSource {
 public:
  explicit ProbeSource(std::uint32_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    for (std::uint32_t i = 0; i < unit_bytes_; ++i) out[i] = probe_byte(unit, i);
    return {Plane::kBf16, unit_bytes_};
  }

 private:
  std::uint32_t unit_bytes_;
};

class ProbeSink final : public UnitSink {
 public:
  explicit ProbeSink(std::uint32_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    if (bytes.size() != unit_bytes_) return {Code::kDataLoss, fmt::format("a probe's unit has {} bytes", bytes.size())};
    for (std::uint32_t i = 0; i < unit_bytes_; ++i) {
      if (bytes[i] != probe_byte(unit, i)) return {Code::kDataLoss, "a probe's unit holds other bytes"};
    }
    return {};
  }

 private:
  std::uint32_t unit_bytes_;
};

}  // namespace

std::uint32_t largest_unit_bytes(const kv::KvShape& shape) {
  const std::size_t values = kv::unit_values(shape, kv::kBlockTokens);
  return static_cast<std::uint32_t>(std::max(values * sizeof(Bf16), quant::lossless_bound(values)));
}

std::uint64_t prompt_cache_bytes(const kv::KvShape& shape, int tokens) {
  const std::uint64_t whole = kv::unit_values(shape, kv::kBlockTokens) * static_cast<std::uint64_t>(tokens / kv::kBlockTokens);
  const int rest = tokens % kv::kBlockTokens;
  const std::uint64_t values = whole + (rest == 0 ? 0 : kv::unit_values(shape, rest));
  return values * 2 * sizeof(Bf16) * static_cast<std::uint64_t>(shape.layers);
}

std::vector<Plane> planes_of(TransferMode mode) {
  if (mode == TransferMode::kBf16) return {Plane::kBf16};
  return {Plane::kLossless, Plane::kBf16};
}

std::vector<UnitKey> completed_units(int layer, int start, int end, int prompt_tokens) {
  const int first = start / kv::kBlockTokens;
  const int last = end == prompt_tokens ? kv::blocks_for(end) : end / kv::kBlockTokens;
  std::vector<UnitKey> units;
  for (int block = first; block < last; ++block) {
    for (const Part part : {Part::kK, Part::kV}) {
      units.push_back({static_cast<std::uint16_t>(layer), part, Plane::kBf16, static_cast<std::uint32_t>(block)});
    }
  }
  return units;
}

std::shared_ptr<UnitSource> make_cache_source(PromptBlocks prompt, TransferMode mode, Isa isa) {
  return std::make_shared<CacheSource>(std::move(prompt), mode, isa);
}
std::shared_ptr<UnitSink> make_cache_sink(PromptBlocks prompt, Isa isa) {
  return std::make_shared<CacheSink>(std::move(prompt), isa);
}
std::shared_ptr<UnitSource> make_probe_source(std::uint32_t unit_bytes) {
  return std::make_shared<ProbeSource>(unit_bytes);
}
std::shared_ptr<UnitSink> make_probe_sink(std::uint32_t unit_bytes) {
  return std::make_shared<ProbeSink>(unit_bytes);
}

}  // namespace lynx::server
