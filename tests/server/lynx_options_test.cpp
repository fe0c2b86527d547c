// The `lynx` object of a request body, as completions and chat read it.

#include "server/lynx_options.h"

#include <string>
#include <utility>
#include <vector>

#include "server/openai_prompt.h"
#include "server/openai_request.h"
#include "tests/catch.h"

namespace lynx::server {
namespace {

const RequestLimits kLimits{.model_names = {"tiny"}, .vocabulary = 258, .max_model_len = 256};

ApiResult<ChatRequest> chat(const std::string& own, bool stream) {
  auto json = parse_json_object(R"({"messages":[{"role":"user","content":"hi"}],"stream":)" +
                                std::string(stream ? "true" : "false") + R"(,"lynx":)" + own + "}");
  REQUIRE(json.ok());
  return parse_chat_request(json.value(), kLimits);
}

ApiResult<CompletionRequest> completion(const std::string& own, bool stream) {
  auto json = parse_json_object(R"({"prompt":"hi","stream":)" + std::string(stream ? "true" : "false") + R"(,"lynx":)" + own + "}");
  REQUIRE(json.ok());
  return parse_completion_request(json.value(), kLimits);
}

/// What both kinds of bodies are read as.
LynxOptions options_of(const std::string& own, bool stream = false) {
  INFO(own);
  const auto one = completion(own, stream);
  const auto other = chat(own, stream);
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  const LynxOptions a = one.value().options.lynx;
  const LynxOptions b = other.value().options.lynx;
  CHECK(a.transfer == b.transfer);
  CHECK(a.gap == b.gap);
  CHECK(a.provisional == b.provisional);
  CHECK(a.receipt == b.receipt);
  return a;
}

ApiError error_of(const std::string& own, bool stream = false) {
  INFO(own);
  const auto one = completion(own, stream);
  const auto other = chat(own, stream);
  REQUIRE_FALSE(one.ok());
  REQUIRE_FALSE(other.ok());
  CHECK(one.error().param == other.error().param);
  CHECK(one.error().message == other.error().message);
  CHECK(one.error().status == 400);
  REQUIRE(one.error().param);
  return one.error();
}

}  // namespace

TEST_CASE("without a lynx object the node's defaults hold") {
  for (const char* own : {"null", "{}", R"({"transfer":null,"gap":null,"speculation":null,"provisional":null,"receipt":null})"}) {
    const LynxOptions options = options_of(own);
    CHECK_FALSE(options.transfer);
    CHECK_FALSE(options.gap);
    CHECK_FALSE(options.provisional);
    CHECK_FALSE(options.receipt);
  }
}

TEST_CASE("every transfer mode can be asked for, and an error names them all") {
  for (const TransferMode mode : kTransferModes) {
    CHECK(options_of(R"({"transfer":")" + std::string(transfer_mode_name(mode)) + "\"}").transfer == mode);
  }
  for (const char* value : {R"("fp8")", R"("BF16")", R"("")", "7", "true", "[]", "{}"}) {
    const ApiError error = error_of(R"({"transfer":)" + std::string(value) + "}");
    CHECK(error.param == "lynx.transfer");
    for (const TransferMode mode : kTransferModes) {
      CHECK(error.message.find("\"" + std::string(transfer_mode_name(mode)) + "\"") != std::string::npos);
    }
  }
}

TEST_CASE("gap, and its alias") {
  const std::vector<std::pair<std::string, GapMode>> good = {
      {R"({"gap":"draft"})", GapMode::kDraft},
      {R"({"gap":"wait"})", GapMode::kWait},
      {R"({"speculation":true})", GapMode::kDraft},
      {R"({"speculation":"on"})", GapMode::kDraft},
      {R"({"speculation":false})", GapMode::kWait},
      {R"({"speculation":"off"})", GapMode::kWait},
      {R"({"gap":"wait","speculation":false})", GapMode::kWait},
      {R"({"gap":"draft","speculation":true})", GapMode::kDraft},
  };
  for (const auto& [own, gap] : good) CHECK(options_of(own).gap == gap);
  for (const char* value : {R"("drafts")", "true", "1", "[]"}) {
    CHECK(error_of(R"({"gap":)" + std::string(value) + "}").param == "lynx.gap");
  }
  for (const char* value : {R"("wait")", R"("true")", "1", "0", "[]"}) {
    CHECK(error_of(R"({"speculation":)" + std::string(value) + "}").param == "lynx.speculation");
  }
  CHECK(error_of(R"({"gap":"wait","speculation":true})").param == "lynx.speculation");
  CHECK(error_of(R"({"gap":"draft","speculation":"off"})").param == "lynx.speculation");
}

TEST_CASE("a receipt is for every answer, provisional tokens are for streams") {
  CHECK(options_of(R"({"receipt":true})").receipt);
  CHECK(options_of(R"({"receipt":true})", true).receipt);
  CHECK(options_of(R"({"provisional":true})", true).provisional);
  CHECK_FALSE(options_of(R"({"provisional":false})").provisional);
  const ApiError error = error_of(R"({"provisional":true})");
  CHECK(error.param == "lynx.provisional");
  CHECK(error.message.find("'stream'") != std::string::npos);
  for (const char* key : {"provisional", "receipt"}) {
    for (const char* value : {"1", R"("true")", "[]", "{}"}) {
      CHECK(error_of(R"({")" + std::string(key) + "\":" + value + "}", true).param == "lynx." + std::string(key));
    }
  }
}

TEST_CASE("what the lynx object does not know is refused by name") {
  for (const char* own : {R"({"warp":9})", R"({"transfer":"bf16","warp":null})"}) {
    const ApiError error = error_of(own);
    CHECK(error.param == "lynx.warp");
    CHECK(error.code == "unknown_parameter");
    CHECK(error.message.find("'warp'") != std::string::npos);
  }
  for (const char* own : {"5", "true", "[]", R"("bf16")"}) CHECK(error_of(own).param == "lynx");
}

TEST_CASE("the engine gets what the lynx object says") {
  GenerationOptions options;
  options.lynx = {.transfer = TransferMode::kInt8, .gap = GapMode::kWait, .provisional = true, .receipt = true};
  const auto request = make_generate_request(options, {1, 2}, "id", 100, "prompt");
  REQUIRE(request.ok());
  CHECK(request.value().transfer == TransferMode::kInt8);
  CHECK(request.value().gap == GapMode::kWait);
  CHECK(request.value().provisional);
  CHECK(request.value().receipt);
  options.lynx = {};
  const auto plain = make_generate_request(options, {1, 2}, "id", 100, "prompt");
  REQUIRE(plain.ok());
  CHECK_FALSE(plain.value().transfer);
  CHECK_FALSE(plain.value().gap);
  CHECK_FALSE(plain.value().provisional);
  CHECK_FALSE(plain.value().receipt);
}

}  // namespace lynx::server
