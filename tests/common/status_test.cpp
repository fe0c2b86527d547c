#include "common/status.h"

#include <string>

#include "tests/catch.h"

namespace lynx {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return invalid_argument("odd");
  return value / 2;
}

Status quarter(int value, int* out) {
  LYNX_TRY(int once, half(value));
  LYNX_TRY(*out, half(once));
  return {};
}

TEST_CASE("A default Status is OK and keeps OK through context") {
  CHECK(Status{}.ok());
  CHECK(Status{}.with_context("file").ok());
  CHECK(Status{}.to_string() == "OK");
}

TEST_CASE("A failure names its code and its context") {
  Status status = not_found("no such tensor").with_context("model.gguf");
  CHECK(status.code() == Code::kNotFound);
  CHECK(status.to_string() == "NOT_FOUND: model.gguf: no such tensor");
}

TEST_CASE("LYNX_TRY yields the value or leaves with the failure") {
  int out = 0;
  CHECK(quarter(12, &out).ok());
  CHECK(out == 3);
  CHECK(quarter(6, &out).code() == Code::kInvalidArgument);
  CHECK(half(3).status().message() == "odd");
  CHECK(half(4).status().ok());
}

TEST_CASE("A code above the last has no name of another") {
  CHECK(code_name(Code::kInternal) == "INTERNAL");
  CHECK(code_name(static_cast<Code>(99)) == "UNKNOWN");
}

}  // namespace
}  // namespace lynx
