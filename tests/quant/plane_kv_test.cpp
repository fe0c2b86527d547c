// The size of the planes on a real KV cache, and that they give it back.

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "kv/kv_units.h"
#include "tests/quant/plane_fixture.h"
#include "tests/quant/plane_reference.h"
#include "tests/quant/real_kv.h"

namespace lynx::quant {
namespace {

struct Sizes {
  std::size_t values = 0;
  std::size_t anchor = 0;
  std::size_t int8 = 0;
  std::size_t exact = 0;
  std::size_t raw = 0;
  double error[2] = {};  ///< Squared, of the anchor and the int8 view.
  double power = 0;

  double bits(std::size_t bytes) const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
};

Sizes sum(const Sizes& a, const Sizes& b) {
  return {a.values + b.values, a.anchor + b.anchor, a.int8 + b.int8,
          a.exact + b.exact,   a.raw + b.raw,       {a.error[0] + b.error[0], a.error[1] + b.error[1]},
          a.power + b.power};
}

double squared_error(const PlaneValues& values, const PlaneValues& view) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(bf16_to_float(values[i])) - static_cast<double>(bf16_to_float(view[i]));
    sum += difference * difference;
  }
  return sum;
}

void add_unit(const PlaneUnit& unit, const PlaneValues& values, Sizes* sizes) {
  const PlaneBytes anchor = make_anchor(unit, values);
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  PlaneValues back(values.size());
  if (!exact.empty()) {
    REQUIRE(decode_exact_at(unit, anchor, exact, &back).to_string() == "OK");
    REQUIRE(back == values);
  }
  sizes->values += values.size();
  sizes->anchor += anchor.size();
  sizes->exact += exact.empty() ? 2 * values.size() : exact.size();
  sizes->raw += exact.empty() ? 1 : 0;
  sizes->power += squared_error(values, PlaneValues(values.size(), 0));
  REQUIRE(decode_anchor_at(unit, anchor, &back).ok());
  sizes->error[0] += squared_error(values, back);
  if (unit.wide_anchor) return;
  const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
  sizes->int8 += int8.size();
  REQUIRE(decode_int8_at(unit, anchor, int8, &back).ok());
  sizes->error[1] += squared_error(values, back);
}

/// All paths write what the second codec writes, and it reads what they write.
void check_against_reference(const PlaneUnit& unit, const PlaneValues& values) {
  const ReferenceUnit reference{unit.part == PlanePart::kK, unit.heads, unit.head_dim, unit.first_block, unit.wide_anchor};
  const PlaneBytes anchor = make_anchor(unit, values);
  REQUIRE((anchor == reference_anchor(reference, values)));
  if (!unit.wide_anchor) REQUIRE((make_int8_residual(unit, anchor, values) == reference_int8_residual(reference, values)));
  const PlaneBytes exact = make_exact_residual(unit, anchor, values);
  if (!exact.empty()) REQUIRE(reference_exact(reference, anchor, exact) == values);
}

std::string describe(const char* name, const Sizes& sizes) {
  return fmt::format("{}: Anchor {:.3f}, + int8 {:.3f}, + exact {:.3f} bits a value; relative error {:.5f}, {:.5f}; {} raw\n", name,
                     sizes.bits(sizes.anchor), sizes.bits(sizes.anchor + sizes.int8), sizes.bits(sizes.anchor + sizes.exact),
                     std::sqrt(sizes.error[0] / sizes.power), std::sqrt(sizes.error[1] / sizes.power), sizes.raw);
}

TEST_CASE("A real prompt's planes take at most 4.70, 8.75 and 11.7 bits a value, scales and sinks included") {
  auto file = model::ModelFile::open(model::real_model_path());
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  model::TestModel model(**file, model::supported_paths().back(), 2, kv::blocks_for(kRealTokens));
  const kv::BlockTable table = run_prompt(model, model::real_tokens(**file, kRealTokens));
  const kv::KvShape shape = model.cache().shape();

  Sizes sizes[2];
  Sizes wide;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int block = 0; block < coded_blocks(kRealTokens); ++block) {
      for (const PlanePart part : {PlanePart::kK, PlanePart::kV}) {
        PlaneUnit unit{part, shape.kv_heads, shape.head_dim, block == 0, false};
        PlaneValues values(unit_slots(unit));
        kv::read_unit(model.cache(), layer, table.blocks()[plane_size(block)],
                      part == PlanePart::kK ? kv::KvPart::kK : kv::KvPart::kV, kPlaneBlockTokens, values);
        add_unit(unit, values, &sizes[part == PlanePart::kK ? 0 : 1]);
        if (layer % 10 == 3 && block % 8 == 0) check_against_reference(unit, values);
        unit.wide_anchor = true;
        if (part == PlanePart::kK) add_unit(unit, values, &wide);
      }
    }
  }
  const Sizes all = sum(sizes[0], sizes[1]);
  const std::string measured =
      describe("K", sizes[0]) + describe("V", sizes[1]) + describe("all", all) + describe("K, wide Anchors", wide);
  fmt::print("{}", measured);
  INFO(measured);
  CHECK(all.bits(all.anchor) <= 4.70);
  CHECK(all.bits(all.anchor + all.int8) <= 8.75);
  CHECK(all.bits(all.anchor + all.exact) <= 11.7);
  CHECK(all.bits(all.anchor + all.exact) > 9);
  CHECK(wide.bits(wide.anchor + wide.exact) <= 11.7);
  CHECK(all.error[1] < all.error[0] / 100);
}

}  // namespace
}  // namespace lynx::quant
