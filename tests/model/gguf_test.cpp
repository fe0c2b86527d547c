#include "model/gguf.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/model/gguf_builder.h"

namespace lynx::model {
namespace {

using testing::GgufBuilder;
using testing::raw;

void check_refused(const GgufBuilder& builder, Code code, const std::string& part) {
  const auto bytes = builder.build();
  const Status status = GgufFile::parse(bytes).status();
  CAPTURE(status.to_string());
  CHECK(status.code() == code);
  CHECK(status.message().find(part) != std::string::npos);
}

TEST_CASE("Typed metadata comes back as it was written") {
  GgufBuilder builder;
  builder.set_u32("u32", 7);
  builder.set_i32("i32", -7);
  builder.set_u64("u64", 1234567);
  builder.set_raw("u8", 0, raw(std::uint8_t{200}));
  builder.set_raw("i8", 1, raw(std::int8_t{-100}));
  builder.set_raw("u16", 2, raw(std::uint16_t{60000}));
  builder.set_raw("i16", 3, raw(std::int16_t{-30000}));
  builder.set_raw("i64", 11, raw(std::int64_t{-2147483648LL}));
  builder.set_f32("f32", 0.5F);
  builder.set_raw("f64", 12, raw(0.25));
  builder.set_bool("bool", 1);
  builder.set_string("string", "text");
  builder.set_strings("strings", {"", "one", "two"});
  builder.set_i32s("ints", {1, -2, 3});
  for (const std::uint32_t version : {2U, 3U}) {
    builder.version = version;
    const auto bytes = builder.build();
    const auto file = GgufFile::parse(bytes);
    REQUIRE(file.ok());
    const std::pair<const char*, int> integers[] = {{"u32", 7},   {"i32", -7},    {"u64", 1234567}, {"u8", 200},
                                                    {"i8", -100}, {"u16", 60000}, {"i16", -30000},  {"i64", -2147483647 - 1}};
    for (const auto& [key, expected] : integers) {
      int value = 0;
      CAPTURE(key);
      REQUIRE(file->require(key, &value).ok());
      CHECK(value == expected);
    }
    float number = 0;
    REQUIRE(file->read("f32", &number).ok());
    CHECK(number == 0.5F);
    REQUIRE(file->read("f64", &number).ok());
    CHECK(number == 0.25F);
    bool flag = false;
    REQUIRE(file->read("bool", &flag).ok());
    CHECK(flag);
    std::string_view text;
    REQUIRE(file->read("string", &text).ok());
    CHECK(text == "text");
    std::vector<std::string_view> texts;
    REQUIRE(file->read("strings", &texts).ok());
    CHECK(texts == std::vector<std::string_view>{"", "one", "two"});
    std::vector<int> ints;
    REQUIRE(file->read("ints", &ints).ok());
    CHECK(ints == std::vector<int>{1, -2, 3});
  }
}

TEST_CASE("A key of another type or out of range is refused by name; an absent one leaves the default") {
  GgufBuilder builder;
  builder.set_string("text", "x");
  builder.set_u32("big", 0xffffffffU);
  builder.set_u64("huge", ~std::uint64_t{0});
  builder.set_raw("low", 11, raw(std::int64_t{-2147483649LL}));
  builder.set_bool("flag", 2);
  builder.set_strings("list", {"a"});
  builder.set_f32("float", 1.0F);
  const auto bytes = builder.build();
  const auto file = GgufFile::parse(bytes);
  REQUIRE(file.ok());
  int integer = 42;
  float number = 0;
  bool flag = false;
  std::string_view text;
  std::vector<int> ints;
  std::vector<std::string_view> texts;
  for (const char* key : {"text", "big", "huge", "low", "list", "float", "flag"}) {
    const Status status = file->read(key, &integer);
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find(std::string("'") + key + "'") != std::string::npos);
  }
  CHECK_FALSE(file->read("big", &number).ok());
  CHECK_FALSE(file->read("list", &number).ok());
  CHECK_FALSE(file->read("flag", &flag).ok());
  CHECK_FALSE(file->read("big", &flag).ok());
  CHECK_FALSE(file->read("list", &text).ok());
  CHECK_FALSE(file->read("list", &ints).ok());
  CHECK_FALSE(file->read("text", &texts).ok());
  CHECK(file->read("absent", &integer).ok());
  CHECK(integer == 42);
  CHECK(file->require("absent", &integer).message().find("'absent'") != std::string::npos);
}

TEST_CASE("Malformed headers and metadata") {
  GgufBuilder empty;
  for (const std::uint32_t version : {0U, 1U, 4U}) {
    empty.version = version;
    check_refused(empty, Code::kUnimplemented, "version " + std::to_string(version));
  }
  empty.version = 0x03000000U;
  check_refused(empty, Code::kUnimplemented, "big-endian");

  GgufBuilder twice;
  twice.set_u32("key", 1);
  twice.duplicate_last_key();
  check_refused(twice, Code::kInvalidArgument, "'key': appears twice");

  const auto with = [](std::uint32_t type, const std::string& value) {
    GgufBuilder builder;
    builder.set_raw("key", type, value);
    return builder;
  };
  check_refused(with(13, ""), Code::kInvalidArgument, "'key'");
  check_refused(with(9, raw(std::uint32_t{9}) + raw(std::uint64_t{0})), Code::kUnimplemented, "arrays of arrays");
  check_refused(with(9, raw(std::uint32_t{13}) + raw(std::uint64_t{0})), Code::kInvalidArgument, "element type");
  for (const std::uint64_t count : {std::uint64_t{1000}, std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    check_refused(with(9, raw(std::uint32_t{10}) + raw(count)), Code::kInvalidArgument, "beyond the end");
    check_refused(with(9, raw(std::uint32_t{8}) + raw(count)), Code::kInvalidArgument, "beyond the end");
    check_refused(with(8, raw(count)), Code::kInvalidArgument, "beyond the end");
  }
}

TEST_CASE("Counts that no file can hold are refused before anything is allocated") {
  for (const std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    for (const bool tensors : {false, true}) {
      const std::string header = "GGUF" + raw(std::uint32_t{3}) + raw(tensors ? count : 0) + raw(tensors ? 0 : count);
      const Status status = GgufFile::parse(std::as_bytes(std::span(header.data(), header.size()))).status();
      CHECK(status.code() == Code::kInvalidArgument);
      CHECK(status.message().find("at most 65536") != std::string::npos);
    }
  }
}

TEST_CASE("The tensor directory is checked") {
  const auto with = [](std::vector<std::uint64_t> extents) {
    GgufBuilder builder;
    builder.add_tensor("t", std::move(extents), 0, 128);
    return builder;
  };
  check_refused(with({}), Code::kInvalidArgument, "'t': 0 dimensions");
  check_refused(with({1, 1, 1, 1, 1}), Code::kInvalidArgument, "'t': 5 dimensions");
  check_refused(with({0}), Code::kInvalidArgument, "'t': dimension 0 is 0");
  check_refused(with({1ULL << 32, 1ULL << 32}), Code::kInvalidArgument, "'t': dimension 1");
  check_refused(with({~0ULL}), Code::kInvalidArgument, "'t': dimension 0");

  GgufBuilder twice = with({32});
  twice.add_tensor("t", {32}, 0, 128);
  check_refused(twice, Code::kInvalidArgument, "'t': appears twice");
  GgufBuilder crooked = with({32});
  crooked.tensor("t").offset = 4;
  check_refused(crooked, Code::kInvalidArgument, "not aligned to 32");
}

TEST_CASE("Alignment and splits") {
  for (const std::uint32_t alignment : {0U, 3U, 48U, 1U << 21}) {
    GgufBuilder builder;
    builder.set_u32("general.alignment", alignment);
    check_refused(builder, Code::kInvalidArgument, "general.alignment");
  }
  GgufBuilder wide;
  wide.set_u32("general.alignment", 4096);
  wide.alignment = 4096;
  wide.add_tensor("t", {32}, 0, 128);
  const auto bytes = wide.build();
  const auto file = GgufFile::parse(bytes);
  REQUIRE(file.ok());
  CHECK(file->data().size() == 128);
  CHECK(file->data().data() == bytes.data() + 4096);

  GgufBuilder split;
  split.set_raw("split.count", 2, raw(std::uint16_t{3}));
  check_refused(split, Code::kUnimplemented, "3 splits");
}

}  // namespace
}  // namespace lynx::model
