// The front at its limits: what is large but asked for is delivered, what is beyond reason costs one request only.

#include <new>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_front_fixture.h"

namespace lynx::server {

using testing::Front;
using testing::sse_data;

TEST_CASE("an echo larger than the stream's buffer is no slow reader; one beyond all bounds is refused") {
  Front front({.limits = {.stream_buffer_bytes = 100'000}, .max_model_len = 4096});
  const std::string prompt = "\"prompt\":\"" + std::string(1000, 'a') + "\",\"echo\":true,\"stream\":true,\"max_tokens\":2";
  const auto response = front.post("/v1/completions", "{" + prompt + R"(,"n":64,"logprobs":1})");
  CHECK(response.body.size() > 1'000'000);
  const auto events = sse_data(response.body);
  REQUIRE(events.back() == "[DONE]");
  int finished = 0;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    finished += Json::parse(events[i])["choices"][0]["finish_reason"].is_string() ? 1 : 0;
  }
  CHECK(finished == 64);
  CHECK(front.server->stats().overflows_total == 0);
  const auto refused =
      front.post("/v1/completions", R"({"prompt":")" + std::string(2000, 'a') + R"(","echo":true,"n":128,"logprobs":20})");
  CHECK(refused.status == 400);
  CHECK(Json::parse(refused.body)["error"]["param"] == "logprobs");
}

TEST_CASE("a generation that cannot even be started ends its request, not the server") {
  Front front;
  front.engine.set_script([](const GenerateRequest&) -> std::vector<GenerationUpdate> { throw std::bad_alloc(); });
  CHECK(front.post("/v1/completions", R"({"prompt":"a"})").status == 500);
  CHECK(front.post("/v1/completions", R"({"prompt":"a","stream":true})").status == 500);
  front.engine.set_script(testing::FakeEngine::repeat_prompt);
  CHECK(front.post("/v1/completions", R"({"prompt":"a"})").status == 200);
}

}  // namespace lynx::server
