// Forwards that read a prompt's coded blocks as Anchor planes, against forwards over the BF16 values that the planes stand for: the
// default model, on real text.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kv/kv_units.h"
#include "quant/plane_codec.h"
#include "tests/model/forward_fixture.h"
#include "tests/model/real_text.h"

namespace lynx::model {
namespace {

constexpr int kPassRows = 64;
/// Of logits, root mean square: twice what lies between the AVX2 and the AVX-512 path over the same BF16 values (0.015).
constexpr double kNoise = 0.03;

/// Every third layer has wide Anchors.
quant::PlaneProfile some_wide(int layers) {
  quant::PlaneProfile profile;
  for (int layer = 0; layer < layers; ++layer) profile.wide_k.push_back(layer % 3 == 1);
  return profile;
}

/// A prompt in the cache; its coded blocks twice more: as planes, and as the BF16 values that they stand for, in another table.
class Prompt {
 public:
  Prompt(TestModel& model, std::span<const std::int32_t> tokens)
      : model_(model),
        tokens_(static_cast<int>(tokens.size())),
        profile_(some_wide(model.cache().shape().layers)),
        drafting(model.new_table()),
        expanded(model.new_table()) {
    for (int first = 0; first < tokens_; first += kPassRows) {
      const auto rows = static_cast<std::size_t>(std::min(kPassRows, tokens_ - first));
      model.run({&drafting, first, tokens.subspan(static_cast<std::size_t>(first), rows), std::vector<int>{}});
    }
    REQUIRE(expanded.reserve(tokens_));
    for (std::size_t b = 0; b < expanded.blocks().size(); ++b) model.cache().copy_block(drafting.blocks()[b], expanded.blocks()[b]);
    make_planes();
    for (int layer = 0; layer < model.cache().shape().layers; ++layer) {
      for (int index = 0; index < coded_blocks(); ++index) {
        code(layer, index, kv::KvPart::kK);
        code(layer, index, kv::KvPart::kV);
      }
    }
    model.use_planes(&*planes_, &profile_);
  }

  int coded_blocks() const { return tokens_ / kv::kBlockTokens; }

 private:
  quant::PlaneUnit unit(int layer, int index, kv::KvPart part) const {
    const kv::KvShape& shape = model_.cache().shape();
    const bool is_k = part == kv::KvPart::kK;
    return {is_k ? quant::PlanePart::kK : quant::PlanePart::kV, shape.kv_heads, shape.head_dim, index == 0,
            is_k && profile_.is_wide_k(layer)};
  }

  void make_planes() {
    const int blocks = model_.cache().blocks();
    kv::AnchorPlaneBytes bytes{};
    for (const int layer : {0, 1}) {
      bytes.k = std::max(bytes.k, quant::anchor_bytes(unit(layer, 0, kv::KvPart::kK)));
      bytes.v = std::max(bytes.v, quant::anchor_bytes(unit(layer, 0, kv::KvPart::kV)));
    }
    auto planes = kv::AnchorCache::create(model_.cache().shape().layers, blocks, bytes);
    REQUIRE(planes.ok());
    planes_.emplace(std::move(planes).value());
  }

  /// Afterwards the block's own values are NaN: a pass that looked at them would show it.
  void code(int layer, int index, kv::KvPart part) {
    const auto at = static_cast<std::size_t>(index);
    const quant::PlaneUnit coded = unit(layer, index, part);
    std::vector<Bf16> values(quant::unit_slots(coded));
    kv::read_unit(model_.cache(), layer, drafting.blocks()[at], part, kv::kBlockTokens, values);
    const std::span<std::byte> plane = planes_->plane(layer, drafting.blocks()[at], part).first(quant::anchor_bytes(coded));
    quant::encode_anchor(Isa::kPortable, coded, values, plane);
    REQUIRE(quant::decode_anchor(Isa::kPortable, coded, plane, values).ok());
    kv::write_unit(model_.cache(), layer, expanded.blocks()[at], part, kv::kBlockTokens, values);
    std::fill(values.begin(), values.end(), Bf16{0x7fc0});
    kv::write_unit(model_.cache(), layer, drafting.blocks()[at], part, kv::kBlockTokens, values);
  }

  TestModel& model_;
  int tokens_;
  quant::PlaneProfile profile_;
  std::optional<kv::AnchorCache> planes_;

 public:
  kv::BlockTable drafting;
  kv::BlockTable expanded;
};

struct Agreement {
  int positions = 0;
  int same_top = 0;
  double squares = 0;
  double power = 0;

  void add(std::span<const float> drafted, std::span<const float> exact) {
    const auto top = [](std::span<const float> logits) { return std::max_element(logits.begin(), logits.end()) - logits.begin(); };
    double mean = 0;
    for (const float x : exact) mean += static_cast<double>(x) / static_cast<double>(exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = static_cast<double>(drafted[i]) - static_cast<double>(exact[i]);
      squares += error * error;
      power += (static_cast<double>(exact[i]) - mean) * (static_cast<double>(exact[i]) - mean);
    }
    ++positions;
    same_top += top(drafted) == top(exact) ? 1 : 0;
  }
  double error() const { return std::sqrt(squares / power); }
};

/// `rows` positions behind a prompt of `prompt` tokens, in spans of several lengths.
Agreement compare(ModelFile& file, Isa isa, int prompt, int rows) {
  const std::vector<std::int32_t> tokens = real_tokens(file, static_cast<std::size_t>(prompt + rows));
  TestModel model(file, isa, 2, 2 * kv::blocks_for(prompt + rows));
  Prompt both(model, std::span(tokens).first(static_cast<std::size_t>(prompt)));
  Agreement agreement;
  int position = prompt;
  for (int turn = 0; position < prompt + rows; ++turn) {
    const int count = std::min(std::vector<int>{1, 3, 1, 16}[static_cast<std::size_t>(turn) % 4], prompt + rows - position);
    const std::span<const std::int32_t> next =
        std::span(tokens).subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(count));
    const std::vector<float> drafted = model.run({&both.drafting, position, next, std::nullopt, both.coded_blocks()});
    const std::vector<float> exact = model.run({&both.expanded, position, next});
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      const std::size_t at = row * model.vocabulary();
      agreement.add(std::span(drafted).subspan(at, model.vocabulary()), std::span(exact).subspan(at, model.vocabulary()));
    }
    position += count;
  }
  return agreement;
}

TEST_CASE("A forward over Anchor planes agrees with one over the expanded view") {
  auto file = ModelFile::open(real_model_path());
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  for (const Isa isa : supported_paths()) {
    const bool slow = isa == Isa::kPortable;
    const Agreement agreement = compare(**file, isa, slow ? 135 : 8 * kv::kBlockTokens + 37, slow ? 21 : 168);
    const std::string measured = fmt::format("{}: the same best token at {} of {} positions, relative error of logits {:.5f}\n",
                                             isa_name(isa), agreement.same_top, agreement.positions, agreement.error());
    fmt::print("{}", measured);
    INFO(measured);
    CHECK(agreement.same_top * 100 >= agreement.positions * 97);
    CHECK(agreement.error() < kNoise);
  }
}

TEST_CASE("Rows without logits change nothing for those with, and spans over planes nothing for those beside them") {
  auto file = ModelFile::open(real_model_path());
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  constexpr int kPrompt = 128;  // The first row begins a block.
  const std::vector<std::int32_t> tokens = real_tokens(**file, kPrompt + 20);
  const auto part_of = [&](int first, int rows) {
    return std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
  };
  TestModel model(**file, supported_paths().back(), 2, 12);
  Prompt both(model, std::span(tokens).first(kPrompt));
  kv::BlockTable other = model.new_table();
  model.run({&other, 0, part_of(0, 40), std::vector<int>{}});

  const std::vector<float> all = model.run({&both.drafting, kPrompt, part_of(kPrompt, 20), std::nullopt, 2});
  const std::vector<float> plain = model.run({&other, 40, part_of(40, 5)});
  const std::vector<TestModel::Part> parts = {{&other, 40, part_of(40, 5)},
                                              {&both.drafting, kPrompt, part_of(kPrompt, 20), std::vector<int>{0, 7, 8, 19}, 2}};
  const std::vector<float> some = model.run(parts);
  const std::size_t width = model.vocabulary();
  CHECK(std::equal(plain.begin(), plain.end(), some.begin()));
  const std::vector<std::size_t> rows = {0, 7, 8, 19};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Agreement agreement;
    agreement.add(std::span(some).subspan((5 + i) * width, width), std::span(all).subspan(rows[i] * width, width));
    CHECK(agreement.same_top == 1);
    CHECK(agreement.error() < kNoise);
  }
}

}  // namespace
}  // namespace lynx::model
