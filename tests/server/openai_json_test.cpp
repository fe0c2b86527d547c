#include "server/openai_json.h"

#include <string>

#include "tests/catch.h"

namespace lynx::server {

TEST_CASE("JSON objects keep their order and values") {
  const auto parsed = parse_json_object(R"({"b":1,"a":[null,true,-2,3.5,"\ud83d\ude00é"],"c":{"z":{},"y":[]}})");
  REQUIRE(parsed.ok());
  CHECK(parsed.value().dump() == "{\"b\":1,\"a\":[null,true,-2,3.5,\"😀é\"],\"c\":{\"z\":{},\"y\":[]}}");
}

TEST_CASE("what is not one JSON object is a 400") {
  const std::string deep = "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}";
  const std::string cases[] = {"",
                               "{",
                               "[]",
                               "\"a\"",
                               "{\"a\":1}x",
                               "{\"a\":01}",
                               "{'a':1}",
                               "{\"a\":NaN}",
                               "{\"a\":1e999}",
                               "{\"a\":tru}",
                               "{\"a\":1,\"a\":2}",
                               deep,
                               "{\"a\":\"\\ud800\"}",
                               "{\"a\":\"\\udc00\"}",
                               "{\"a\":\"\\ud800\\ud800\"}",
                               "{\"a\":\"\xff\"}",
                               "{\"a\":\"\xc3\"}",
                               "{\"a\":\"\xed\xa0\x80\"}",
                               "{\"a\":\"\n\"}",
                               std::string("{\"a\":1\0}", 8)};
  for (const std::string& text : cases) {
    INFO(text);
    const auto parsed = parse_json_object(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().status == 400);
    CHECK_FALSE(parsed.error().message.empty());
    // Whatever the client sent, the answer is valid JSON.
    CHECK_FALSE(Json::parse(error_body(parsed.error()), nullptr, false).is_discarded());
  }
}

TEST_CASE("a duplicate key is found in nested objects, and only there where it is one") {
  CHECK(parse_json_object(R"({"a":{"b":1},"c":{"b":1},"b":[{"b":2},{"b":3}]})").ok());
  CHECK_FALSE(parse_json_object(R"({"a":[{"b":1,"c":2,"b":3}]})").ok());
}

TEST_CASE("the number of values is bounded") {
  std::string text = "{\"a\":[";
  for (std::size_t i = 0; i < kMaxJsonNodes; ++i) text += "1,";
  text += "1]}";
  CHECK_FALSE(parse_json_object(text).ok());
}

TEST_CASE("an object with many keys takes linear time") {
  // 200,000 keys: looking each up linearly would take minutes.
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto parsed = parse_json_object(text);
  REQUIRE(parsed.ok());
  CHECK(parsed.value().size() == 200'000);
}

TEST_CASE("output is valid UTF-8 whatever the text holds") {
  CHECK(dump_json(Json{{"a", "x\xff\xc3"}}) == "{\"a\":\"x\xef\xbf\xbd\xef\xbf\xbd\"}");
}

}  // namespace lynx::server
