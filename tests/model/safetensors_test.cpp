#include "model/safetensors.h"

#include <cstring>
#include <string>
#include <vector>

#include "model/hf_weights.h"
#include "tests/catch.h"
#include "tests/model/gguf_builder.h"
#include "tests/model/hf_files.h"

namespace lynx::model {
namespace {

using testing::raw;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::string text = raw(static_cast<std::uint64_t>(header.size())) + header + std::string(data_bytes, '\x11');
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Status parse(const std::vector<std::byte>& bytes) {
  TensorTable table;
  return add_safetensors(bytes, table);
}

TEST_CASE("Tensors come out with type, shape and place") {
  const auto bytes =
      file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[16,28]},)"
              R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"i":{"dtype":"I64","shape":[],"data_offsets":[28,36]}}  )",
              36);
  TensorTable table;
  REQUIRE(add_safetensors(bytes, table).to_string() == "OK");
  const auto b = table.take_matrix("b", 2, 3);
  REQUIRE(b.ok());
  CHECK(b->type == quant::WeightType::kBf16);
  CHECK(b->data == bytes.data() + bytes.size() - 36 + 16);
  const auto a = table.take_vector("a", 4);
  REQUIRE(a.ok());
  CHECK(a->rows == 1);
  CHECK(a->cols == 4);
  CHECK(table.unused() == std::vector<std::string>{"i"});
  CHECK(table.take_vector("a", 5).status().message().find("shape [4], expected [5]") != std::string::npos);
}

TEST_CASE("A type that is not read is kept by name, and refused when asked for") {
  const auto bytes = file_of(R"({"w":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}})", 4);
  TensorTable table;
  REQUIRE(add_safetensors(bytes, table).ok());
  const auto taken = table.take_matrix("w", 2, 2);
  CHECK(taken.status().code() == Code::kUnimplemented);
  CHECK(taken.status().message().find("type F8_E4M3") != std::string::npos);
}

TEST_CASE("Malformed files are refused with tensor and reason") {
  struct Case {
    const char* header;
    std::size_t data_bytes;
    Code code;
    const char* part;
  };
  const Case table[] = {
      {R"([])", 0, Code::kInvalidArgument, "expected an object"},
      {R"({"w":3})", 0, Code::kInvalidArgument, "'w': expected an object"},
      {R"({"w":{"shape":[1],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "'dtype': missing"},
      {R"({"w":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})", 4, Code::kUnimplemented, "'w': type 'F4'"},
      {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "'shape'"},
      {R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "'shape'"},
      {R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "'shape'"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, Code::kInvalidArgument, "'data_offsets'"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, Code::kInvalidArgument, "do not lie inside the 4 bytes"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, Code::kInvalidArgument, "do not lie inside"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "not the size of the shape"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "not the size"},
      {R"({"w":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, Code::kInvalidArgument, "not the size"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       Code::kInvalidArgument, "'b': starts at byte 0 of the data, expected 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, Code::kInvalidArgument, "'a': starts at byte 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, Code::kInvalidArgument, "5 bytes of data"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       Code::kInvalidArgument, "appears twice"},
      {R"({"a")", 0, Code::kInvalidArgument, "not valid JSON"},
  };
  for (const Case& entry : table) {
    const Status status = parse(file_of(entry.header, entry.data_bytes));
    CAPTURE(entry.header, status.to_string());
    CHECK(status.code() == entry.code);
    CHECK(status.message().find(entry.part) != std::string::npos);
  }
}

TEST_CASE("A header's length is checked before it is read") {
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 24, (std::uint64_t{1} << 24) + 1, ~std::uint64_t{0}}) {
    const std::string text = raw(length) + "{}";
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    CHECK(parse(bytes).message().find("a header of") != std::string::npos);
  }
  CHECK(parse(std::vector<std::byte>(7)).message().find("shorter") != std::string::npos);
  CHECK(parse({}).code() == Code::kInvalidArgument);
}

TEST_CASE("Shards lie inside the directory") {
  for (const char* name : {"model-00001-of-00002.safetensors", "a.safetensors"}) CHECK(check_shard_name(name).ok());
  using namespace std::string_view_literals;
  for (const std::string_view name : {""sv, ".safetensors"sv, "../x.safetensors"sv, "a/b.safetensors"sv, "/etc/x.safetensors"sv,
                                      "a\\b.safetensors"sv, "a\0.safetensors"sv, "a.bin"sv, "..safetensors"sv}) {
    CHECK(check_shard_name(name).code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lynx::model
