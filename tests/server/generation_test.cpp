#include "server/generation.h"

#include <utility>

#include "tests/catch.h"

namespace lynx::server {
namespace {

std::unique_ptr<Generation> new_generation(kv::BlockPool* pool) {
  GenerateRequest request;
  request.request_id = "r";
  request.prompt = {1, 2, 3};
  request.max_tokens = 10;
  request.provisional = true;
  auto made = make_generation(std::move(request), nullptr, {}, 100, 100, pool);
  REQUIRE(made.ok());
  return std::move(made).value();
}

std::optional<Provisional> shown(Generation& generation) {
  std::optional<GenerationUpdate> update = generation.take_update();
  return update ? update->choices.at(0).provisional : std::nullopt;
}

TEST_CASE("drafts that are given up are taken back, however that comes about") {
  kv::BlockPool pool(4);
  for (const int kept : {0, 1, 2}) {
    CAPTURE(kept);
    const auto generation = new_generation(&pool);
    generation->add_draft(0, 7, "se");
    generation->add_draft(0, 8, "ven");
    const auto before = shown(*generation);
    REQUIRE(before.has_value());
    CHECK(before->text == "seven");
    CHECK(before->tokens == std::vector<std::int32_t>{7, 8});
    CHECK_FALSE(shown(*generation).has_value());

    generation->keep_drafts(0, kept);
    generation->at(0).accepted = kept / 2;
    generation->settle_drafts(0);
    const auto after = shown(*generation);
    REQUIRE(after.has_value());
    CHECK(after->tokens.empty());
    CHECK(after->text.empty());
    CHECK(generation->receipt.drafted == 2);
    CHECK(generation->receipt.accepted == kept / 2);
    CHECK(generation->receipt.rolled_back == 2 - kept / 2);

    generation->add_draft(0, 9, "nine");
    CHECK(shown(*generation)->text == "nine");
  }
}

}  // namespace
}  // namespace lynx::server
