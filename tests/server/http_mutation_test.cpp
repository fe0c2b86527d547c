// 2,000 requests, mutated from valid ones with a fixed seed: no crash, no 5xx but 503, nothing left behind.

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/server/http_front_fixture.h"

namespace lynx::server {
namespace {

using testing::Front;
using testing::HttpClient;

constexpr int kRequests = 2000;
constexpr std::uint64_t kSeed = 20260701;

const std::vector<std::pair<std::string, std::string>> kValid = {
    {"/v1/chat/completions",
     R"({"model":"tiny","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"é"}]}],"temperature":0.5,"seed":7,"n":2,"stop":["x","yz"],"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true}})"},
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"😀 \ud83d\ude00"}],"max_completion_tokens":5,"logit_bias":{"5":-1.5},"user":"u"})"},
    {"/v1/completions",
     R"({"prompt":["ab","cd"],"max_tokens":4,"echo":true,"logprobs":1,"top_k":5,"min_p":0.1,"presence_penalty":1})"},
    {"/v1/completions", R"({"prompt":[[97,98],[99,100]],"n":2,"best_of":2,"stream":true,"ignore_eos":true,"stop_token_ids":[1]})"},
    {"/tokenize", R"({"prompt":"hello","add_special_tokens":true,"return_token_strs":true})"},
    {"/detokenize", R"({"tokens":[104,105]})"},
};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  /// Changes bytes, or swaps a value for another kind of value.
  std::string mutate(std::string body) {
    static const std::vector<std::string> kValues = {
        "null", "true", "-1",          "0",   "1e308",    "9223372036854775808", "\"\"",       "[]",
        "{}",   "[[]]", "\"\\ud800\"", "0.5", "\"text\"", "[1,\"a\"]",           "{\"a\":{}}", "1e-320"};
    for (std::size_t i = below(4) + 1; i > 0 && !body.empty(); --i) {
      const std::size_t at = below(body.size());
      switch (below(7)) {
        case 0: body[at] = static_cast<char>(below(256)); break;
        case 1: body.erase(at, below(8) + 1); break;
        case 2: body.insert(at, body.substr(below(body.size()), below(20))); break;
        case 3: body.insert(at, std::string(below(40), "[{\":,"[below(5)])); break;
        case 4: body.resize(at); break;
        default: replace_value(&body, kValues[below(kValues.size())]); break;
      }
    }
    return body;
  }

 private:
  /// The text between some colon and the next comma or brace.
  void replace_value(std::string* body, const std::string& value) {
    const auto colon = body->find(':', below(body->size()));
    if (colon == std::string::npos) return;
    const auto end = body->find_first_of(",}", colon);
    body->replace(colon + 1, (end == std::string::npos ? body->size() : end) - colon - 1, value);
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("mutated requests get an answer below 500, and nothing is left of them") {
  Front front;
  Mutator mutator(kSeed);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto& [path, valid] = kValid[mutator.below(kValid.size())];
    const std::string body = mutator.mutate(valid);
    INFO(fmt::format("seed {}, request {}: {} {}", kSeed, i, path, body));
    HttpClient client(front.port());
    client.send_request("POST", path, body);
    if (mutator.below(20) == 0) continue;  // leaves without reading the answer
    if (body.empty()) continue;
    const auto response = client.receive();
    REQUIRE(response);
    CHECK((response->status < 500 || response->status == 503));
    (response->status == 200 ? accepted : refused) += 1;
    if (response->status != 200) CHECK(Json::parse(response->body).contains("error"));
  }
  // The mutations neither destroy everything nor nothing.
  CHECK(accepted > kRequests / 20);
  CHECK(refused > kRequests / 4);
  CHECK(front.idle());
  CHECK(front.post("/v1/completions", R"({"prompt":"ok"})").status == 200);
}

TEST_CASE("mutated HTTP itself does not stop the server") {
  Front front({.limits = {.header_timeout = std::chrono::milliseconds(100), .body_timeout = std::chrono::milliseconds(100)}});
  Mutator mutator(kSeed + 1);
  const std::string body = kValid[1].second;
  const std::string valid =
      fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body);
  for (int i = 0; i < 300; ++i) {
    HttpClient client(front.port());
    client.send(mutator.mutate(valid));
    client.half_close();
    (void)client.receive();
  }
  CHECK(front.idle());
  CHECK(front.get("/health").status == 200);
}

}  // namespace lynx::server
