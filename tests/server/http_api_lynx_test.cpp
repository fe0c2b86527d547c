// Receipts and provisional tokens through the whole HTTP front.

#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_front_fixture.h"

namespace lynx::server {
namespace {

using testing::events_of;
using testing::FakeEngine;
using testing::Front;

Receipt some_receipt() {
  return {.transfer = TransferMode::kProgressiveExact,
          .verified = FullView::kExact,
          .gap = GapMode::kDraft,
          .drafted = 7,
          .accepted = 5,
          .rolled_back = 2,
          .first_bytes = 1000,
          .residual_bytes = 3000,
          .first_token_s = 0.5,
          .anchors_s = 0.75,
          .cache_s = 1.25,
          .verified_s = 1.5,
          .second_token_s = 1.5};
}
constexpr const char* kSomeReceipt =
    R"({"transfer":"progressive-exact","verified":"exact","gap":"draft","drafted":7,"accepted":5,"rolled_back":2,)"
    R"("bytes":{"first":1000,"residual":3000},"first_token_s":0.5,"anchors_s":0.75,"cache_s":1.25,"verified_s":1.5,)"
    R"("second_token_s":1.5})";

/// As the engine does: a receipt only where it was asked for.
std::vector<GenerationUpdate> with_receipt(const GenerateRequest& request, const Receipt& receipt) {
  auto updates = FakeEngine::repeat_prompt(request);
  if (request.receipt) updates.back().receipt = receipt;
  return updates;
}

ChoiceUpdate part_of(int choice, const std::string& text, std::optional<Provisional> provisional = {}) {
  ChoiceUpdate update;
  update.choice = choice;
  update.text = text;
  for (const char c : text) {
    update.tokens.push_back({.id = static_cast<unsigned char>(c), .logprob = -0.25F, .top = {}});
    update.text_offsets.push_back(0);
  }
  update.provisional = std::move(provisional);
  return update;
}

/// Two choices: drafts come, some become text, the rest is taken back.
std::vector<GenerationUpdate> drafting(const GenerateRequest&) {
  std::vector<GenerationUpdate> updates(5);
  updates[0].choices = {part_of(0, "a"), part_of(1, "A")};
  updates[1].choices = {part_of(0, "", Provisional{{98}, "b"}), part_of(1, "", Provisional{{66}, "B"})};
  updates[2].choices = {part_of(0, "", Provisional{{98, 120}, "bx"})};
  updates[3].choices = {part_of(0, "bc", Provisional{}), part_of(1, "Z", Provisional{})};
  updates[4].choices = {part_of(0, ""), part_of(1, "")};
  for (ChoiceUpdate& choice : updates[4].choices) choice.finish = FinishReason::kStop;
  for (GenerationUpdate& update : updates) update.usage = {.prompt_tokens = 2, .completion_tokens = 5};
  updates[4].finished = true;
  return updates;
}

const char* const kChat = "/v1/chat/completions";
const char* const kCompletions = "/v1/completions";

std::string body_for(const std::string& path, const std::string& extra) {
  return (path == kChat ? R"({"messages":[{"role":"user","content":"hi"}],)" : R"({"prompt":"hi",)") + extra + "}";
}

/// What a client that knows nothing of drafts puts together.
std::map<int, std::string> texts_of(const std::vector<Json>& events, bool chat) {
  std::map<int, std::string> texts;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      std::string& text = texts[choice["index"].get<int>()];
      text += chat ? choice["delta"].value("content", "") : choice["text"].get<std::string>();
    }
  }
  return texts;
}

}  // namespace

TEST_CASE("a receipt is in the answer if it was asked for") {
  Front front;
  front.engine.set_script([](const GenerateRequest& request) { return with_receipt(request, some_receipt()); });
  for (const std::string path : {kCompletions, kChat}) {
    const auto with = front.post(path, body_for(path, R"("max_tokens":2,"n":2,"lynx":{"receipt":true})"));
    CHECK(with.status == 200);
    CHECK(dump_json(Json::parse(with.body)["lynx"]) == R"({"receipt":)" + std::string(kSomeReceipt) + "}");
    const auto without = front.post(path, body_for(path, R"("max_tokens":2,"lynx":{"receipt":false})"));
    CHECK(without.status == 200);
    CHECK_FALSE(Json::parse(without.body).contains("lynx"));
  }
  CHECK(front.idle());
}

TEST_CASE("what was not reached is null in a receipt") {
  Front front;
  front.engine.set_script([](const GenerateRequest& request) {
    Receipt receipt;
    receipt.verified = FullView::kAnchor;
    receipt.first_token_s = 0;
    return with_receipt(request, receipt);
  });
  const auto got = front.post(kCompletions, body_for(kCompletions, R"("lynx":{"receipt":true})"));
  CHECK(dump_json(Json::parse(got.body)["lynx"]["receipt"]) ==
        R"({"transfer":null,"verified":"anchor","gap":"wait","drafted":0,"accepted":0,"rolled_back":0,)"
        R"("bytes":{"first":0,"residual":0},"first_token_s":0.0,"anchors_s":null,"cache_s":null,"verified_s":null,)"
        R"("second_token_s":null})");
}

TEST_CASE("several prompts have a receipt each, in their order") {
  Front front;
  front.engine.set_script([](const GenerateRequest& request) {
    Receipt receipt;
    receipt.drafted = static_cast<int>(request.prompt.size());
    return with_receipt(request, receipt);
  });
  for (const bool stream : {false, true}) {
    const std::string body =
        R"({"prompt":["aaaa","b","cc"],"lynx":{"receipt":true},"stream":)" + std::string(stream ? "true" : "false") + "}";
    const auto response = front.post(kCompletions, body);
    const Json last = stream ? events_of(response).back() : Json::parse(response.body);
    CHECK_FALSE(last["lynx"].contains("receipt"));
    REQUIRE(last["lynx"]["receipts"].size() == 3);
    CHECK(last["lynx"]["receipts"][0]["drafted"] == 4);
    CHECK(last["lynx"]["receipts"][1]["drafted"] == 1);
    CHECK(last["lynx"]["receipts"][2]["drafted"] == 2);
  }
}

TEST_CASE("a stream ends with the receipt, in the usage chunk if there is one") {
  Front front;
  front.engine.set_script([](const GenerateRequest& request) { return with_receipt(request, some_receipt()); });
  for (const std::string path : {kCompletions, kChat}) {
    for (const bool usage : {false, true}) {
      const std::string options = usage ? R"(,"stream_options":{"include_usage":true})" : "";
      const auto plain = events_of(front.post(path, body_for(path, R"("max_tokens":2,"stream":true)" + options)));
      const auto events =
          events_of(front.post(path, body_for(path, R"("max_tokens":2,"stream":true,"lynx":{"receipt":true})" + options)));
      REQUIRE(events.size() == plain.size() + (usage ? 0 : 1));
      for (const Json& event : plain) CHECK_FALSE(event.contains("lynx"));
      for (std::size_t i = 0; i + 1 < events.size(); ++i) CHECK_FALSE(events[i].contains("lynx"));
      const Json& last = events.back();
      CHECK(last["choices"] == Json::array());
      CHECK(last["object"] == events.front()["object"]);
      CHECK(last["id"] == events.front()["id"]);
      CHECK(last.contains("usage") == usage);
      CHECK(dump_json(last["lynx"]["receipt"]) == kSomeReceipt);
    }
  }
}

TEST_CASE("provisional tokens are beside a text that does not know of them") {
  Front front;
  front.engine.set_script(drafting);
  for (const std::string path : {kCompletions, kChat}) {
    const bool chat = path == kChat;
    const auto events = events_of(front.post(path, body_for(path, R"("n":2,"stream":true,"lynx":{"provisional":true})")));
    CHECK(front.engine.last_request().provisional);
    CHECK(texts_of(events, chat) == std::map<int, std::string>{{0, "abc"}, {1, "AZ"}});
    // Committed text and the drafts behind it, after each chunk that has drafts.
    std::map<int, std::string> committed;
    std::vector<std::string> shown;
    for (const Json& event : events) {
      REQUIRE(event["choices"].size() == 1);
      const Json& choice = event["choices"][0];
      const int index = choice["index"].get<int>();
      committed[index] += chat ? choice["delta"].value("content", "") : choice["text"].get<std::string>();
      if (!event.contains("lynx")) continue;
      // A client that adds up contents without a look at null takes such a chunk too.
      CHECK((chat ? choice["delta"]["content"] : choice["text"]).is_string());
      REQUIRE(event["lynx"]["provisional"].size() == 1);
      const Json& drafts = event["lynx"]["provisional"][0];
      CHECK(drafts["index"] == index);
      shown.push_back(std::to_string(index) + committed[index] + "|" + drafts["text"].get<std::string>() +
                      dump_json(drafts["tokens"]));
    }
    CHECK(shown == std::vector<std::string>{"0a|b[98]", "1A|B[66]", "0a|bx[98,120]", "0abc|[]", "1AZ|[]"});
  }
  CHECK(front.idle());
}

TEST_CASE("provisional tokens of several prompts have the choice's index of the answer") {
  Front front;
  front.engine.set_script(drafting);
  const auto events =
      events_of(front.post(kCompletions, R"({"prompt":["hi","ho"],"n":2,"stream":true,"lynx":{"provisional":true}})"));
  std::map<int, int> lists;
  for (const Json& event : events) {
    if (event.contains("lynx")) ++lists[event["lynx"]["provisional"][0]["index"].get<int>()];
  }
  CHECK(lists == std::map<int, int>{{0, 3}, {1, 2}, {2, 3}, {3, 2}});
}

TEST_CASE("an answer in one piece has no provisional tokens, and a stream none that did not ask") {
  Front front;
  const auto refused = front.post(kChat, body_for(kChat, R"("lynx":{"provisional":true})"));
  CHECK(refused.status == 400);
  CHECK(Json::parse(refused.body)["error"]["param"] == "lynx.provisional");
  CHECK(front.engine.submitted_total() == 0);
  CHECK(front.post(kChat, body_for(kChat, R"("stream":true)")).status == 200);
  CHECK_FALSE(front.engine.last_request().provisional);
  CHECK(front.idle());
}

}  // namespace lynx::server
