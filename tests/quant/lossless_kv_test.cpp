// The size of the lossless plane on real KV caches: the default model over the sample handbook.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kv/kv_units.h"
#include "model/model_file.h"
#include "tests/catch.h"
#include "tests/model/forward_fixture.h"
#include "tests/quant/lossless_fixture.h"
#include "text/tokenizer.h"

namespace lynx::quant {
namespace {

constexpr int kTokens = 1024 + 21;  // Sixteen whole blocks, and one of 32 token slots of which 21 are used.
constexpr int kPassRows = 128;

std::vector<std::int32_t> real_tokens(const model::ModelFile& file) {
  std::ifstream in("docs/sample/harbour_handbook.md");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto tokenizer = text::Tokenizer::create(file.tokenizer());
  REQUIRE(tokenizer.ok());
  auto tokens = tokenizer->encode(text, true);
  REQUIRE(tokens.ok());
  REQUIRE(tokens->size() >= kTokens);
  tokens->resize(kTokens);
  return *tokens;
}

/// The prompt's KV cache in a model that ran it.
kv::BlockTable run_prompt(model::TestModel& model, std::span<const std::int32_t> tokens) {
  kv::BlockTable table = model.new_table();
  for (int first = 0; first < kTokens; first += kPassRows) {
    const int rows = std::min(kPassRows, kTokens - first);
    model.run({&table, first, tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows)), std::vector<int>{}});
  }
  return table;
}

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
  model::TestModel model(**file, model::supported_paths().back(), 2, kv::blocks_for(kTokens));
  const kv::BlockTable table = run_prompt(model, real_tokens(**file));

  Size sizes[2];
  for (int layer = 0; layer < model.cache().shape().layers; ++layer) {
    for (int first = 0; first < kTokens; first += kv::kBlockTokens) {
      const kv::BlockId block = table.blocks()[static_cast<std::size_t>(first / kv::kBlockTokens)];
      const int tokens = std::min(kv::kBlockTokens, kTokens - first);
      add_unit(model.cache(), layer, block, kv::KvPart::kK, tokens, &sizes[0]);
      add_unit(model.cache(), layer, block, kv::KvPart::kV, tokens, &sizes[1]);
    }
  }
  const Size all{sizes[0].values + sizes[1].values, sizes[0].bytes + sizes[1].bytes, sizes[0].raw_units + sizes[1].raw_units};
  const std::string measured = fmt::format("bits a value over {} tokens: K {:.3f}, V {:.3f}, all {:.3f}; {} raw units", kTokens,
                                           sizes[0].bits_a_value(), sizes[1].bits_a_value(), all.bits_a_value(), all.raw_units);
  fmt::print("{}\n", measured);
  INFO(measured);
  CHECK(all.values >= std::size_t{30} * 2 * 3 * 64 * kTokens);
  CHECK(all.bits_a_value() <= 11.2);
  CHECK(all.bits_a_value() > 9);
}

}  // namespace
}  // namespace lynx::quant
