#pragma once

#include <span>
#include <utility>
#include <vector>

#include "kv/anchor_cache.h"
#include "kv/kv_units.h"
#include "quant/plane_codec.h"
#include "tests/attention/attention_fixture.h"

namespace lynx::attention {

/// Anchor planes beside a fixture's cache.
class AnchorFixture {
 public:
  AnchorFixture(Fixture& fixture, bool wide_k) : fixture_(fixture), wide_k_(wide_k), planes_(make_planes()) {}

  AnchorView view() const { return {&planes_, wide_k_}; }
  kv::AnchorCache& planes() { return planes_; }

  quant::PlaneUnit unit(kv::KvPart part, bool first_block) const {
    const Shape& shape = fixture_.shape();
    const bool is_k = part == kv::KvPart::kK;
    return {is_k ? quant::PlanePart::kK : quant::PlanePart::kV, shape.kv_heads, shape.head_dim, first_block, is_k && wide_k_};
  }

  std::span<std::byte> anchor(const Fixture::Sequence& sequence, int index, kv::KvPart part) {
    return planes_.plane(0, sequence.blocks[static_cast<std::size_t>(index)], part)
        .first(quant::anchor_bytes(unit(part, index == 0)));
  }

  /// Codes the sequence's first `blocks` blocks, whose BF16 values become NaN: nobody may look at them. Returns the sequence as the
  /// planes have it.
  Fixture::Sequence code(const Fixture::Sequence& sequence, int blocks) {
    for (int position = 0; position < blocks * kBlock; ++position) fixture_.store(sequence, position);
    for (int index = 0; index < blocks; ++index) {
      for (const kv::KvPart part : {kv::KvPart::kK, kv::KvPart::kV}) {
        const quant::PlaneUnit coded = unit(part, index == 0);
        std::vector<Bf16> values(quant::unit_slots(coded));
        const kv::BlockId block = sequence.blocks[static_cast<std::size_t>(index)];
        kv::read_unit(fixture_.cache(), 0, block, part, kBlock, values);
        quant::encode_anchor(Isa::kPortable, coded, values, anchor(sequence, index, part));
        kv::write_unit(fixture_.cache(), 0, block, part, kBlock, std::vector<Bf16>(values.size(), 0x7fc1));
      }
    }
    return expanded(sequence, blocks);
  }

  /// The sequence as its planes have it.
  Fixture::Sequence expanded(const Fixture::Sequence& sequence, int blocks) {
    Fixture::Sequence result = sequence;
    for (int index = 0; index < blocks; ++index) {
      expand(result, index, kv::KvPart::kK, result.k);
      expand(result, index, kv::KvPart::kV, result.v);
    }
    return result;
  }

 private:
  kv::AnchorCache make_planes() const {
    const std::size_t k = quant::anchor_bytes(unit(kv::KvPart::kK, true));
    const std::size_t v = quant::anchor_bytes(unit(kv::KvPart::kV, true));
    Result<kv::AnchorCache> planes = kv::AnchorCache::create(1, fixture_.cache().blocks(), {k, v});
    REQUIRE(planes.ok());
    return std::move(planes).value();
  }

  void expand(const Fixture::Sequence& sequence, int index, kv::KvPart part, std::vector<float>& values) {
    const quant::PlaneUnit coded = unit(part, index == 0);
    std::vector<Bf16> view(quant::unit_slots(coded));
    REQUIRE(quant::decode_anchor(Isa::kPortable, coded, anchor(sequence, index, part), view).ok());
    auto value = values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index * kBlock) * fixture_.kv_row());
    for (int token = 0; token < kBlock; ++token) {
      for (int head = 0; head < coded.heads; ++head) {
        for (int c = 0; c < coded.head_dim; ++c) *value++ = bf16_to_float(view[quant::slot_of(coded, head, token, c)]);
      }
    }
  }

  Fixture& fixture_;
  bool wide_k_;
  kv::AnchorCache planes_;
};

}  // namespace lynx::attention
