// The size of the lossless plane on real KV caches: the default model over the sample handbook.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kv/kv_units.h"
#include "model/model_file.h"
#include "tests/catch.h"
#include "tests/quant/lossless_fixture.h"
#include "tests/quant/real_kv.h"

namespace lynx::quant {
namespace {

struct Size {
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t raw_units = 0;
  double bits_a_value() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
};

void add_unit(const kv::KvCache& cache, int layer, kv::BlockId block, kv::KvPart part, int tokens, Size* size) {
  Values values(kv::unit_values(cache.shape(), tokens));
  kv::read_unit(cache, layer, block, part, tokens, values);
  const std::size_t bytes = check_round_trip(values);
  size->values += values.size();
  size->bytes += bytes != 0 ? bytes : 2 * values.size();
  size->raw_units += bytes == 0 ? 1 : 0;
}

TEST_CASE("A real prompt's KV cache takes at most 11.2 bits a value, code tables included") {
  auto file = model::ModelFile::open(model::real_model_path());
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  model::TestModel model(**file, model::supported_paths().back(), 2, kv::blocks_for(kRealTokens));
  const kv::BlockTable table = run_prompt(model, model::real_tokens(**file, kRealTokens));

  Size sizes[2];
  for (int layer = 0; layer < model.cache().shape().layers; ++layer) {
    for (int first = 0; first < kRealTokens; first += kv::kBlockTokens) {
      const kv::BlockId block = table.blocks()[static_cast<std::size_t>(first / kv::kBlockTokens)];
      const int tokens = std::min(kv::kBlockTokens, kRealTokens - first);
      add_unit(model.cache(), layer, block, kv::KvPart::kK, tokens, &sizes[0]);
      add_unit(model.cache(), layer, block, kv::KvPart::kV, tokens, &sizes[1]);
    }
  }
  const Size all{sizes[0].values + sizes[1].values, sizes[0].bytes + sizes[1].bytes, sizes[0].raw_units + sizes[1].raw_units};
  const std::string measured = fmt::format("bits a value over {} tokens: K {:.3f}, V {:.3f}, all {:.3f}; {} raw units", kRealTokens,
                                           sizes[0].bits_a_value(), sizes[1].bits_a_value(), all.bits_a_value(), all.raw_units);
  fmt::print("{}\n", measured);
  INFO(measured);
  CHECK(all.values >= std::size_t{30} * 2 * 3 * 64 * kRealTokens);
  CHECK(all.bits_a_value() <= 11.2);
  CHECK(all.bits_a_value() > 9);
}

}  // namespace
}  // namespace lynx::quant
