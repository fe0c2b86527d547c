#include "server/pair_hello.h"

#include <cstdio>
#include <fstream>
#include <functional>

#include "tests/catch.h"

using namespace lynx;
using namespace lynx::server;

namespace {

v1::NodeHello hello() {
  v1::NodeHello hello;
  hello.set_protocol(1);
  hello.set_ucx_version("1.22.0");
  hello.set_weights("aa");
  hello.set_tokenizer("bb");
  hello.set_kv_dtype("bf16");
  hello.set_block_tokens(64);
  hello.set_layers(30);
  hello.set_kv_heads(3);
  hello.set_head_dim(64);
  hello.set_numerics("ff");
  for (const char* mode : {"bf16", "lossless"}) hello.add_transfers(mode);
  for (const char* lane : {"high", "background"}) hello.add_lanes(lane);
  return hello;
}

std::string write_file(const std::string& content) {
  const std::string path = "pair_secret_test.txt";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace

TEST_CASE("nodes that differ in what they must share part, and the message names the field") {
  CHECK(check_compatible(hello(), hello()).ok());
  const std::vector<std::pair<std::string, std::function<void(v1::NodeHello&)>>> changes{
      {"protocol", [](auto& h) { h.set_protocol(2); }},
      {"ucx_version", [](auto& h) { h.set_ucx_version("1.13.1"); }},
      {"weights", [](auto& h) { h.set_weights("cc"); }},
      {"tokenizer", [](auto& h) { h.set_tokenizer(""); }},
      {"kv_dtype", [](auto& h) { h.set_kv_dtype("fp8"); }},
      {"block_tokens", [](auto& h) { h.set_block_tokens(16); }},
      {"layers", [](auto& h) { h.set_layers(31); }},
      {"kv_heads", [](auto& h) { h.set_kv_heads(4); }},
      {"head_dim", [](auto& h) { h.set_head_dim(128); }},
      {"lanes", [](auto& h) { h.clear_lanes(); }},
      {"transfers", [](auto& h) { h.mutable_transfers()->RemoveLast(); }},
  };
  for (const auto& [field, change] : changes) {
    v1::NodeHello theirs = hello();
    change(theirs);
    const Status status = check_compatible(hello(), theirs);
    CAPTURE(field, status.message());
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK(status.message().find(field) != std::string::npos);
  }
}

TEST_CASE("what a peer says is shown without its control characters, and not at length") {
  v1::NodeHello theirs = hello();
  theirs.set_weights(std::string("\x1b[31m\n") + std::string(100000, 'x'));
  const std::string message = check_compatible(hello(), theirs).message();
  CHECK(message.size() < 300);
  for (const char c : message) CHECK(c >= ' ');
}

TEST_CASE("nodes of different numerics may work together, and are known to differ") {
  v1::NodeHello theirs = hello();
  CHECK(same_numerics(hello(), theirs));
  theirs.set_numerics("ee");
  CHECK(check_compatible(hello(), theirs).ok());
  CHECK_FALSE(same_numerics(hello(), theirs));
  v1::NodeHello silent = hello();
  silent.clear_numerics();
  CHECK_FALSE(same_numerics(silent, silent));
}

TEST_CASE("a pair secret is the first line of its file, and errors name the file but not its content") {
  CHECK(*read_pair_secret(write_file("0123456789abcdef\r\nmore")) == "0123456789abcdef");
  for (const char* content : {"", "\n", "tooshort", "0123456789 abcdef", "0123456789abcde\x01", "0123456789abcdéf"}) {
    const auto secret = read_pair_secret(write_file(content));
    CAPTURE(content);
    REQUIRE_FALSE(secret.ok());
    CHECK(secret.status().message().find("pair_secret_test.txt") != std::string::npos);
    CHECK(secret.status().message().find("0123") == std::string::npos);
  }
  std::remove("pair_secret_test.txt");
  for (const char* path : {"/does/not/exist", "/dev/zero", "/dev/null", "/"}) CHECK_FALSE(read_pair_secret(path).ok());
}

TEST_CASE("a required transport is one of those in use") {
  transport::LinkInfo used;
  used.transport = "rc_mlx5,tcp";
  for (const char* required : {"", "tcp", "rc_mlx5"}) CHECK(check_transport(required, used).ok());
  const Status status = check_transport("cuda_ipc", used);
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.message() == "--require-transport cuda_ipc: the data plane uses rc_mlx5,tcp");
  CHECK_FALSE(check_transport("tcp", {}).ok());
}

TEST_CASE("secrets differ from each other") {
  CHECK(random_secret().size() == 16);
  CHECK(random_secret() != random_secret());
}
