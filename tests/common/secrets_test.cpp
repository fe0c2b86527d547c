#include "common/secrets.h"

#include "tests/catch.h"

namespace lynx {
namespace {

TEST_CASE("Secrets are equal only when all of them is") {
  CHECK(equal_secrets("", ""));
  CHECK(equal_secrets("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "Abc", "abcabc"}) {
    CAPTURE(other);
    CHECK_FALSE(equal_secrets("abc", other));
    CHECK_FALSE(equal_secrets(other, "abc"));
  }
}

}  // namespace
}  // namespace lynx
