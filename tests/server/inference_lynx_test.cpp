// Receipts and provisional tokens over gRPC: what HTTP gives, in messages.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/inference_response.h"
#include "tests/server/grpc_front_fixture.h"

namespace lynx::server {
namespace {

using testing::FakeEngine;
using testing::GrpcFront;
using testing::text_request;

Receipt some_receipt() {
  return {.transfer = TransferMode::kProgressiveInt8,
          .verified = FullView::kInt8,
          .gap = GapMode::kDraft,
          .drafted = 7,
          .accepted = 5,
          .rolled_back = 2,
          .first_bytes = 1000,
          .residual_bytes = std::uint64_t{3} << 32,
          .first_token_s = 0,
          .anchors_s = 0.75,
          .cache_s = 1.25,
          .verified_s = 1.5,
          .second_token_s = 1.75};
}

ChoiceUpdate part_of(const std::string& text, std::optional<Provisional> provisional) {
  ChoiceUpdate update;
  update.text = text;
  update.provisional = std::move(provisional);
  return update;
}

std::vector<GenerationUpdate> drafting(const GenerateRequest&) {
  std::vector<GenerationUpdate> updates(4);
  updates[0].choices = {part_of("a", {})};
  updates[1].choices = {part_of("", Provisional{{98, 120}, "bx"})};
  updates[2].choices = {part_of("bc", Provisional{})};
  updates[3].choices = {part_of("", {})};
  updates[3].choices[0].finish = FinishReason::kStop;
  updates[3].finished = true;
  return updates;
}

}  // namespace

TEST_CASE("a receipt is written field by field, and what was not reached is absent") {
  v1::Receipt full;
  fill_receipt(some_receipt(), &full);
  CHECK(full.transfer() == v1::TRANSFER_PROGRESSIVE_INT8);
  CHECK(full.verified() == v1::VIEW_INT8);
  CHECK(full.gap() == v1::GAP_DRAFT);
  CHECK(full.drafted() == 7);
  CHECK(full.accepted() == 5);
  CHECK(full.rolled_back() == 2);
  CHECK(full.first_bytes() == 1000);
  CHECK(full.residual_bytes() == std::uint64_t{3} << 32);
  CHECK(full.has_first_token_s());
  CHECK(full.first_token_s() == 0);
  CHECK(full.anchors_s() == 0.75);
  CHECK(full.cache_s() == 1.25);
  CHECK(full.verified_s() == 1.5);
  CHECK(full.second_token_s() == 1.75);

  v1::Receipt bare;
  fill_receipt({}, &bare);
  CHECK_FALSE(bare.has_transfer());
  CHECK(bare.verified() == v1::VIEW_EXACT);
  CHECK(bare.gap() == v1::GAP_WAIT);
  CHECK_FALSE(bare.has_first_token_s());
  CHECK_FALSE(bare.has_anchors_s());
  CHECK_FALSE(bare.has_cache_s());
  CHECK_FALSE(bare.has_verified_s());
  CHECK_FALSE(bare.has_second_token_s());
}

TEST_CASE("every mode and view has a value of its own in the schema") {
  std::vector<v1::Transfer> seen{v1::TRANSFER_UNSPECIFIED};
  for (const TransferMode mode : kTransferModes) {
    const v1::Transfer value = transfer_value(mode);
    CHECK(v1::Transfer_IsValid(value));
    CHECK(std::find(seen.begin(), seen.end(), value) == seen.end());
    seen.push_back(value);
  }
  CHECK(static_cast<int>(seen.size()) == v1::Transfer_ARRAYSIZE);
  for (const auto& [view, value] : {std::pair{FullView::kExact, v1::VIEW_EXACT}, std::pair{FullView::kInt8, v1::VIEW_INT8},
                                    std::pair{FullView::kAnchor, v1::VIEW_ANCHOR}}) {
    Receipt receipt;
    receipt.verified = view;
    v1::Receipt message;
    fill_receipt(receipt, &message);
    CHECK(message.verified() == value);
  }
}

TEST_CASE("the last message has the receipt, if it was asked for") {
  GrpcFront front;
  front.engine->set_script([](const GenerateRequest& request) {
    auto updates = FakeEngine::repeat_prompt(request);
    if (request.receipt) updates.back().receipt = some_receipt();
    return updates;
  });
  v1::GenerateRequest request = text_request("hello", 3);
  CHECK_FALSE(front.generate(request).messages.back().has_receipt());
  request.mutable_lynx()->set_receipt(true);
  const auto answer = front.generate(request);
  REQUIRE(answer.status.ok());
  for (std::size_t i = 0; i < answer.messages.size(); ++i) {
    CHECK(answer.messages[i].has_receipt() == (i + 1 == answer.messages.size()));
  }
  CHECK(answer.messages.back().receipt().accepted() == 5);
  CHECK(front.idle());
}

TEST_CASE("provisional tokens come with deltas whose texts do not know of them") {
  GrpcFront front;
  front.engine->set_script(drafting);
  v1::GenerateRequest request = text_request("hello", 3);
  request.mutable_lynx()->set_provisional(true);
  const auto answer = front.generate(request);
  REQUIRE(answer.status.ok());
  CHECK(front.engine->last_request().provisional);
  CHECK(answer.texts == std::vector<std::string>{"abc"});
  std::vector<std::string> shown;
  std::string committed;
  for (const v1::GenerateResponse& message : answer.messages) {
    for (const v1::ChoiceDelta& choice : message.choices()) {
      committed += choice.text();
      if (choice.has_provisional()) {
        shown.push_back(committed + "|" + choice.provisional().text() + " " + std::to_string(choice.provisional().tokens_size()));
      }
    }
  }
  CHECK(shown == std::vector<std::string>{"a|bx 2", "abc| 0"});
  CHECK(front.idle());
}

}  // namespace lynx::server
