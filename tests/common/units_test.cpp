#include "common/units.h"

#include "tests/catch.h"

namespace lynx {
namespace {

TEST_CASE("Sizes in binary and decimal units") {
  CHECK(*parse_bytes("1048576") == 1048576);
  CHECK(*parse_bytes("2GiB") == 2147483648LL);
  CHECK(*parse_bytes("2Gi") == 2147483648LL);
  CHECK(*parse_bytes("1.5MiB") == 1572864);
  CHECK(*parse_bytes("4 GB") == 4000000000LL);
}

TEST_CASE("What is not a size is refused by name") {
  for (const char* text : {"", "GiB", "-1GiB", "0", "2gib", "2GiBs", "nan", "inf", "1e300", "0x10", "9999999TiB"}) {
    CAPTURE(text);
    auto parsed = parse_bytes(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().code() == Code::kInvalidArgument);
    CHECK(parsed.status().message().find(text) != std::string::npos);
  }
}

TEST_CASE("Sizes for people") {
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(655360) == "640.0 KiB");
  CHECK(format_bytes(2147483648LL) == "2.00 GiB");
}

}  // namespace
}  // namespace lynx
