#include "server/plane_trial.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "model/model_file.h"
#include "tests/catch.h"
#include "tests/model/forward_fixture.h"
#include "text/tokenizer.h"

namespace lynx::server {
namespace {

constexpr int kPrompt = 300;  // Four blocks are coded, 44 tokens travel raw.
constexpr int kText = 41;

/// The default model over the beginning of the sample handbook.
struct World {
  World() : pool(2) {
    auto file = model::ModelFile::open(model::real_model_path());
    REQUIRE(file.ok());
    auto tokenizer = text::Tokenizer::create((*file)->tokenizer());
    REQUIRE(tokenizer.ok());
    std::ifstream in("docs/sample/harbour_handbook.md");
    auto encoded = tokenizer->encode(std::string{std::istreambuf_iterator<char>(in), {}}, true);
    REQUIRE(encoded.ok());
    tokens = *encoded;
    tokens.resize(kPrompt);
    const Isa isa = model::supported_paths().back();
    auto loaded = model::Model::load(**file, isa, &pool);
    REQUIRE(loaded.ok());
    model = std::move(loaded).value();
    auto made = PlaneTrial::create(model.get(), isa, &pool, kPrompt, kText);
    REQUIRE(made.ok());
    trial.emplace(std::move(made).value());
    trial->set_prompt(tokens);
  }

  ThreadPool pool;
  std::vector<std::int32_t> tokens;
  std::unique_ptr<model::Model> model;
  std::optional<PlaneTrial> trial;
};

model::SamplingParams sampled() {
  model::SamplingParams sampling;
  sampling.seed = 11;
  sampling.temperature = 0.7F;
  sampling.top_p = 0.9F;
  return sampling;
}

TEST_CASE("sizes count codes, scales, zeros, sinks, the raw tail, and a header each") {
  World world;
  constexpr std::uint64_t kLayers = 30;
  constexpr std::uint64_t kHeader = 96;
  constexpr std::uint64_t kGroups = 3 * 64;
  constexpr std::uint64_t kValues = kGroups * 64;
  constexpr std::uint64_t kSinks = 3 * 4 * 64 * 2;
  constexpr std::uint64_t kTail = kGroups * 48 * 2 + kHeader;  // Whole groups of 16 tokens.
  constexpr std::uint64_t kUnit = kValues / 2 + 2 * kGroups + kHeader;

  quant::PlaneProfile profile;
  profile.wide_k.assign(kLayers, false);
  profile.wide_k[17] = true;
  world.trial->code(profile);
  const auto k = world.trial->measure(quant::PlanePart::kK);
  const auto v = world.trial->measure(quant::PlanePart::kV);
  REQUIRE(k.status().to_string() == "OK");
  REQUIRE(v.status().to_string() == "OK");
  CHECK(k->values == kLayers * kGroups * kPrompt);
  CHECK(v->values == k->values);
  CHECK(v->anchor == kLayers * (4 * kUnit + kSinks + kTail));
  CHECK(v->int8 == v->anchor + kLayers * 4 * (kValues / 2 + kHeader));
  CHECK(k->anchor == v->anchor + 4 * kValues / 2);
  CHECK(k->int8 == v->int8 - 4 * kHeader);
  CHECK(v->exact > v->anchor + kLayers * 4 * kValues / 2);
  CHECK(v->exact < v->anchor + kLayers * 4 * (2 * kValues + kHeader));

  const PlaneSizes anchors = world.trial->anchor_sizes(kPrompt, profile);
  CHECK(anchors.anchor == k->anchor + v->anchor);
  CHECK(anchors.values == k->values + v->values);
}

TEST_CASE("neither views nor drafts touch the exact cache, and views are as good as they have bits") {
  World world;
  world.trial->code({});
  const Continuation text = world.trial->continue_exactly(sampled(), kText);
  REQUIRE(text.tokens.size() == kText);
  world.trial->expand(PlaneView::kAnchor);
  const ViewDifference anchor = world.trial->compare(text);
  world.trial->expand(PlaneView::kInt8);
  const ViewDifference int8 = world.trial->compare(text);
  CHECK(anchor.rows == kText - 1);
  CHECK(int8.rows == kText - 1);
  CHECK(int8.divergence > 0);
  CHECK(int8.divergence < anchor.divergence / 3);
  CHECK(int8.agreed >= anchor.agreed);
  CHECK(anchor.agreed > kText / 2);

  quant::PlaneProfile all_wide;
  all_wide.wide_k.assign(30, true);
  for (int layer = 0; layer < 30; ++layer) {
    world.trial->code_k(layer, true);
    world.trial->expand_k(layer);
  }
  const ViewDifference by_layer = world.trial->compare(text);
  world.trial->code(all_wide);
  world.trial->expand(PlaneView::kInt8);
  CHECK(world.trial->compare(text).divergence == int8.divergence);  // Wide K is K's int8 view.
  CHECK(by_layer.divergence == int8.divergence);                    // V's still is.

  world.trial->draft(text);
  const Continuation again = world.trial->continue_exactly(sampled(), kText);
  CHECK(again.tokens == text.tokens);
  CHECK(again.logits == text.logits);
}

TEST_CASE("a draft's run does not depend on how much text there is to compare it with, nor on other drafts") {
  World world;
  world.trial->code({});
  const Continuation text = world.trial->continue_exactly(sampled(), kText);
  REQUIRE(text.tokens.size() == kText);
  const std::vector<DraftRun> runs = world.trial->draft(text);
  REQUIRE(runs.size() == 5);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CHECK(runs[i].offered == std::min(kDraftTokens, kText - 1 - static_cast<int>(i) * kDraftStride));
    CHECK(runs[i].accepted <= runs[i].offered);
  }
  CHECK(std::any_of(runs.begin(), runs.end(), [](const DraftRun& run) { return run.accepted >= 8; }));
  for (const int length : {10, 22}) {
    Continuation shorter{text.sampling, {text.tokens.begin(), text.tokens.begin() + length}, {}};
    const std::vector<DraftRun> fewer = world.trial->draft(shorter);
    REQUIRE(fewer.size() == static_cast<std::size_t>((length - 1 + kDraftStride - 1) / kDraftStride));
    for (std::size_t i = 0; i < fewer.size(); ++i) CHECK(fewer[i].accepted == std::min(runs[i].accepted, fewer[i].offered));
  }

  // Something wrong in the text ends a run there.
  Continuation other = text;
  other.tokens[5] ^= 1;
  CHECK(world.trial->draft(other)[0].accepted <= 4);
}

}  // namespace
}  // namespace lynx::server
