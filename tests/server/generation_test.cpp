#include "server/generation.h"

#include <utility>

#include "tests/catch.h"

namespace lynx::server {
namespace {

std::unique_ptr<Generation> new_generation(kv::BlockPool* pool, int choices = 1) {
  GenerateRequest request;
  request.request_id = "r";
  request.prompt = {1, 2, 3};
  request.max_tokens = 10;
  request.choices = choices;
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

TEST_CASE("drafts are verified when the last live choice has none left and some were held against the cache") {
  kv::BlockPool pool(4);
  const auto generation = new_generation(&pool, 3);
  const Clock::time_point start = generation->times.submitted;
  const auto at = [&](int step) { return start + std::chrono::seconds(step); };
  SECTION("one after the other") {
    for (const int choice : {0, 1, 2}) generation->add_draft(choice, 7, "se");
    generation->settle_verified(1, at(1));
    CHECK_FALSE(generation->times.verified.has_value());
    CHECK(generation->make_receipt().verified_s == -1);
    generation->settle_verified(0, at(2));
    CHECK_FALSE(generation->times.verified.has_value());
    generation->settle_verified(2, at(3));
    CHECK(generation->make_receipt().verified_s == 3);
    generation->add_draft(0, 7, "se");
    generation->settle_verified(0, at(4));
    CHECK(generation->make_receipt().verified_s == 3);
  }
  SECTION("a choice that ended has nothing to be verified") {
    for (const int choice : {0, 1}) generation->add_draft(choice, 7, "se");
    generation->at(1).finish_with(FinishReason::kStop);
    generation->settle_verified(0, at(1));
    CHECK(generation->make_receipt().verified_s == 1);
  }
  SECTION("all were given up") {
    for (const int choice : {0, 1}) generation->add_draft(choice, 7, "se");
    for (const int choice : {0, 1}) generation->keep_drafts(choice, 0);
    for (const int choice : {0, 1}) generation->settle_verified(choice, at(1));
    CHECK_FALSE(generation->times.verified.has_value());
    CHECK(generation->receipt.rolled_back == 2);
  }
  SECTION("the last ones were given up") {
    for (const int choice : {0, 1}) generation->add_draft(choice, 7, "se");
    generation->settle_verified(0, at(1));
    generation->keep_drafts(1, 0);
    generation->settle_verified(1, at(2));
    CHECK(generation->make_receipt().verified_s == 2);
  }
}

}  // namespace
}  // namespace lynx::server
